"""The oracle's refusal of a filter."""

from __future__ import annotations


class FilterRefused(Exception):
    """The text is no filter, or its types do not fit."""

"""The oracle's refusals of a rule record."""

from __future__ import annotations


class Refused(Exception):
    """The record is not valid, whatever the log before it."""


class FilterRefused(Refused):
    """The text is no expression, or its types do not fit."""

"""The error of a check."""

from __future__ import annotations


class CheckFailed(Exception):
    """A step of the check failed. The message names the step, the fault and where to look."""

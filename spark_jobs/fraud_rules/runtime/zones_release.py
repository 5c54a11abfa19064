"""The release of the time zones, see `zones`. This module costs little to import."""

from __future__ import annotations

from functools import cache
from importlib import metadata

__all__ = ["zones_release"]


@cache
def zones_release() -> str:
    """The version of the package `tzdata`, such as 2026.6."""
    return metadata.version("tzdata")

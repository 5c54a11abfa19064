"""The release of the time zones, see `zones`. This module costs little to import."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import metadata


@cache
def zones_release() -> str:
    """The version of the package `tzdata`, such as 2026.6."""
    return metadata.version("tzdata")


def other_releases(named: Iterable[str]) -> list[str]:
    """The releases that batches name beside that of this process, in order. Batches of earlier versions name none."""
    return sorted({*named} - {zones_release(), ""})

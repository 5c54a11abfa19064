"""Loads what other packages add to this product through entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any


def loaded_entry_points(group: str) -> Iterator[tuple[str, Any]]:
    """The name and the object of each entry point of a group, in the order of the names.

    One whose package is not installed is skipped: the wheels name the demo, which only a checkout has.
    """
    for point in sorted(entry_points(group=group), key=lambda each: each.name):
        try:
            found = point.load()
        except ModuleNotFoundError as error:
            if error.name != point.module.partition(".")[0]:
                raise
            continue
        yield point.name, found

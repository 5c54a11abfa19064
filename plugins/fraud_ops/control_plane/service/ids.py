"""The ids and cursors of requests, checked before they reach the database."""

from __future__ import annotations

from typing import Final

from fraud_ops.control_plane.domain.errors import Invalid
from fraud_rules.errors import Reason

__all__ = ["MAX_ID", "parse_cursor", "storable_bound", "storable_id"]

MAX_ID: Final = 2**63 - 1


def parse_cursor(cursor: str) -> int:
    """Parse the cursor of a list. Raises Invalid."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise Invalid([Reason("cursor", "is not a cursor of this list")])
    return storable_id(int(cursor))


def storable_bound(before: int | None) -> int | None:
    """Apply `storable_id` to the bound of a list; None for no bound."""
    return None if before is None else storable_id(before)


def storable_id(number: int) -> int:
    """The number if the database can hold it; otherwise -1, which no object has as its id."""
    return number if 0 <= number <= MAX_ID else -1

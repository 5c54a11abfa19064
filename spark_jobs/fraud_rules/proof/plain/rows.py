"""Which rows of a key a payment can count: deliveries, clears, the beginning of the grouping, and retention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SECOND_DELIVERY = "a second delivery"


class Boundary(NamedTuple):
    """A START or END of the grouping, or a CLEAR, at an offset and time of the rule log."""

    version: int
    time_ms: int
    kind: str


class PlacedRow(NamedTuple):
    """A row with the append time of its record. Its batch saw the rule log below `pin`, and its key group had the
    retention bound `retained_from_ms` right before it."""

    append_ms: int
    pin: int
    retained_from_ms: int
    values: Mapping[str, Any]

    def sees(self, boundary: Boundary) -> bool:
        """Whether the row knows a boundary."""
        return boundary.version < self.pin and boundary.time_ms <= self.append_ms


def is_connected(x: PlacedRow, y: PlacedRow, boundaries: Sequence[Boundary]) -> bool:
    """Whether no start and no clear that one of the two rows knows lies between them, and the earlier row x knows none
    that y does not know."""
    first_ms, last_ms = sorted((x.append_ms, y.append_ms))
    begins = [each for each in boundaries if each.kind != "END"]
    return not any(first_ms < each.time_ms <= last_ms if y.sees(each) else x.sees(each) for each in begins)


def remarks(rows: Sequence[PlacedRow], boundaries: Sequence[Boundary]) -> list[str]:
    """Why the last row cannot count each row of its key, in order; empty for a row that it can count."""
    kept: dict[object, list[PlacedRow]] = {}
    found, e = [], rows[-1]
    for x in rows:
        same = kept.setdefault((x.values["transactionId"], x.values.get("role")), [])
        starts = [each.kind for each in boundaries if each.kind != "CLEAR" and x.sees(each)]
        if starts[-1:] != ["START"]:
            found.append("no rule had the grouping")
        elif any(y.values["eventTime"] >= x.retained_from_ms and is_connected(x, y, boundaries) for y in same):
            found.append(SECOND_DELIVERY)
        else:
            if x.values["eventTime"] >= x.retained_from_ms:
                same.append(x)
            if x.values["eventTime"] < max(x.retained_from_ms, e.retained_from_ms):
                found.append("older than what was retained")
            else:
                found.append("" if is_connected(x, e, boundaries) else "before a clear, or before the grouping began")
    return found

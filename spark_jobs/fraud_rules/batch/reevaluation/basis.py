"""What a state or a result of a day rests on.

The state of a day rests on the transactions of that day and of days before it. It says how many of each it has seen,
and holds as long as these counts do: a day that receives later data is known by that, and so is every day after it
whose windows or cool-downs reach into it.
"""

from __future__ import annotations

import msgspec

from fraud_rules.model.day import Day, days_between

__all__ = ["Basis", "SavedState"]

FORMAT = 1


class Basis(msgspec.Struct, frozen=True, rename="camel"):
    """What a state or a result rests on: the settings that results depend on, and rows judged by day number (text)."""

    key_groups: int
    max_out_of_orderness_ms: int
    rows: dict[str, int]
    format: int = FORMAT

    def agrees(self, other: Basis, first: Day, last: Day) -> bool:
        """Whether both rest on the same, as far as the days from first to last go."""
        same = msgspec.structs.replace(self, rows={}) == msgspec.structs.replace(other, rows={})
        return same and self.has_rows_of(other, first, last)

    def has_rows_of(self, other: Basis, first: Day, last: Day) -> bool:
        """Whether both have seen as many transactions of the days from first to last."""
        days = [str(day.number) for day in days_between(first, last)]
        return all(self.rows.get(day, 0) == other.rows.get(day, 0) for day in days)


class SavedState(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a day: a folder with an image of each of these key groups; the others have no state."""

    folder: str
    basis: Basis
    groups: tuple[int, ...]

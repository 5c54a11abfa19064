"""The basis of a day's state or result: the settings, and the transactions by day.

The state of a day depends on the transactions of that day and of earlier days. The basis has the number of transactions
of each day, and the state is valid while these numbers are current. So a changed number shows that a day has received
later data, and which later days it affects through windows or cool-downs.
"""

from __future__ import annotations

import msgspec

from fraud_rules.model.day import Day, days_between

FORMAT = 2


class Basis(msgspec.Struct, frozen=True, rename="camel"):
    """The basis of a state or a result: the relevant settings, and the evaluated rows by day number (text)."""

    key_groups: int
    max_out_of_orderness_ms: int
    rows: dict[str, int]
    format: int = FORMAT

    def agrees(self, other: Basis, first: Day, last: Day) -> bool:
        """Whether both have the same settings, and the same rows in the days from first to last."""
        same = msgspec.structs.replace(self, rows={}) == msgspec.structs.replace(other, rows={})
        return same and self.has_rows_of(other, first, last)

    def has_rows_of(self, other: Basis, first: Day, last: Day) -> bool:
        """Whether both have the same number of transactions in the days from first to last."""
        days = [str(day.number) for day in days_between(first, last)]
        return all(self.rows.get(day, 0) == other.rows.get(day, 0) for day in days)


class SavedState(msgspec.Struct, frozen=True, rename="camel"):
    """The state at the end of a day: a folder with an image of each of these key groups. The others have no state."""

    folder: str
    basis: Basis
    groups: tuple[int, ...]

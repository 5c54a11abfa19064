"""The windows of rules: where the window of a transaction starts. It ends at the transaction's own event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.support.oracle.calendars import CalendarWindow


@dataclass(frozen=True)
class FixedWindow:
    """A window of fixed length, both ends included."""

    length_ms: int

    @property
    def reach_ms(self) -> int:
        """The longest time from a start to its transaction."""
        return self.length_ms

    def start_ms(self, event_ms: int) -> int:
        """The first instant of the window of a transaction."""
        return event_ms - self.length_ms


Window: TypeAlias = FixedWindow | CalendarWindow
"""A calendar window has no start outside the years 1970 to 2099."""

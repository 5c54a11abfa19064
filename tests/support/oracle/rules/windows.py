"""The windows of rules: where the window of a transaction starts. It ends at the transaction's own event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.support.oracle.rules.calendars import CalendarWindow


@dataclass(frozen=True)
class FixedWindow:
    """A window of fixed length, both ends included. With a resolution, its start is at a multiple of `step_ms`."""

    length_ms: int
    step_ms: int = 1

    @property
    def reach_ms(self) -> int:
        """The longest time from a start to its transaction, without the part of a step."""
        return self.length_ms

    def start_ms(self, event_ms: int) -> int:
        """The first instant of the window of a transaction."""
        return self.step_of_ms(event_ms - self.length_ms)

    def step_of_ms(self, at_ms: int) -> int:
        """The start of the step of an instant."""
        return at_ms // self.step_ms * self.step_ms


Window: TypeAlias = FixedWindow | CalendarWindow
"""A calendar window has no start outside the years 1970 to 2099."""

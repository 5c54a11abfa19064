"""Days of event time, from midnight to midnight in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from fraud_rules.errors import InputInvalid

DAY_MS: Final = 86_400_000

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, order=True)
class Day:
    """One day; `number` counts from 1970-01-01."""

    number: int

    @classmethod
    def parse(cls, text: str) -> Day:
        """Parse a date such as `2026-11-20`. Raises InputInvalid."""
        try:
            return cls((date.fromisoformat(text) - _EPOCH).days)
        except ValueError as error:
            raise InputInvalid(f"{text[:40]!r} is not a day: write it as 2026-11-20") from error

    @classmethod
    def of(cls, time_ms: int) -> Day:
        """The day of a time in epoch ms."""
        return cls(time_ms // DAY_MS)

    @classmethod
    def today(cls) -> Day:
        """The day of the wall clock."""
        return cls.of(int(datetime.now(UTC).timestamp() * 1_000))

    @property
    def start_ms(self) -> int:
        """The first millisecond of the day."""
        return self.number * DAY_MS

    @property
    def end_ms(self) -> int:
        """The first millisecond after the day."""
        return self.start_ms + DAY_MS

    def plus(self, days: int) -> Day:
        """The day this many days later."""
        return Day(self.number + days)

    def __str__(self) -> str:
        """Format as ISO 8601, or as `day` and the number outside Python's calendar."""
        try:
            return (_EPOCH + timedelta(days=self.number)).isoformat()
        except OverflowError:
            return f"day{self.number}"


def days_between(first: Day, last: Day) -> Iterator[Day]:
    """Every day from the first to the last, both included."""
    return map(Day, range(first.number, last.number + 1))

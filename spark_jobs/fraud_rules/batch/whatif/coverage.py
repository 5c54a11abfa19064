"""The part of the days of a what-if that the archive has data for. Rates divide by this time. Pure.

A day counts from midnight to midnight if the archive has the days beside it. The first and the last day with data count
for the time that the archive covers: of the topics from its first transaction to its last run, of imported files from
the first event to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.model.day import DAY_MS, Day

_LEAST_MS: Final = 3_600_000
_THIN_MS: Final = 23 * 3_600_000
"""A day without payments in its first or last minutes still counts as a day."""


class Coverage(msgspec.Struct, frozen=True, rename="camel"):
    """The asked days, those of them with data, and the covered time. `thin`: too little for a rate to rely on. `whole`
    are the days that are covered from midnight to midnight. Reports of earlier releases have none."""

    days: int
    days_with_data: int
    covered_ms: int
    thin: bool
    whole: list[str] = []

    def total(self, per_day: float) -> float:
        """The number in the covered time at this rate."""
        return per_day * self._covered_days

    def per_day(self, count: int) -> float:
        """The rate of a number in the covered time."""
        return round(count / self._covered_days, 2)

    @property
    def _covered_days(self) -> float:
        """A single payment covers no time, so the least covered time is an hour."""
        return max(self.covered_ms, _LEAST_MS) / DAY_MS

    def __str__(self) -> str:
        """The coverage in words."""
        hours = f", {self.covered_ms / 3_600_000:.1f} h in total" if self.thin else ""
        return f"{self.days_with_data} of {self.days} {'day has' if self.days == 1 else 'days have'} data{hours}"


def coverage_of(manifest: Manifest, days: Sequence[Day]) -> Coverage:
    """The coverage of consecutive days."""
    found = {day: _files(manifest, day) for day in (days[0].plus(-1), *days, days[-1].plus(1))}
    covered = {
        str(day): _covered_ms(manifest, day, files, before=bool(found[day.plus(-1)]), after=bool(found[day.plus(1)]))
        for day in days
        if (files := found[day])
    }
    covered_ms = sum(covered.values())
    thin = covered_ms < max(_THIN_MS, len(days) * DAY_MS // 2)
    return Coverage(
        len(days), len(covered), covered_ms, thin, [day for day, of_day in covered.items() if of_day == DAY_MS]
    )


def _files(manifest: Manifest, day: Day) -> list[FileEntry]:
    return [*manifest.of(Table.TRANSACTIONS, day), *manifest.of(Table.IMPORTED, day)]


def _covered_ms(manifest: Manifest, day: Day, files: Sequence[FileEntry], *, before: bool, after: bool) -> int:
    starts = [file.first_ms for file in files]
    ends = [file.last_ms for file in files]
    began_ms, until_ms = manifest.began_ms, manifest.complete_until_ms
    archived = any(file.table is Table.TRANSACTIONS for file in files)
    if archived and began_ms is not None and began_ms < day.end_ms and until_ms > day.start_ms:
        starts.append(began_ms)
        ends.append(until_ms)
    start_ms = day.start_ms if before else max(day.start_ms, min(starts))
    end_ms = day.end_ms if after else min(day.end_ms, max(ends))
    return max(0, end_ms - start_ms)

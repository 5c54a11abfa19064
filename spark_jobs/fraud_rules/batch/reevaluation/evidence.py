"""Reads a detector's archived rule log, its batches, and its evaluated days."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from fraud_rules.batch.archive.columns import APPEND, OFFSET
from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.cuts import Cuts, refused_entries
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayNotArchived, RuleLogForeign
from fraud_rules.logs.detector_status import BatchProgress, decode_progress
from fraud_rules.model.day import Day
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema

__all__ = ["ArchivedLogs"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArchivedLogs:
    """The archived logs of one manifest."""

    store: ArchiveStore
    manifest: Manifest
    schema: TransactionSchema
    settings: DetectorSettings

    def entries(self) -> tuple[LogEntry, ...]:
        """The rule log. Raises RuleLogForeign if its beginning is missing."""
        records = read_log(self.store, self.manifest.of(Table.RULES))
        offsets = records.column(OFFSET).to_pylist()
        if offsets and self.manifest.starts.get(self.settings.topics.rules, {}).get("0", 0) > 0:
            raise RuleLogForeign("the beginning of the archived rule log is missing: keep the topic of rules forever")
        times = records.column(APPEND).cast(pa.int64()).to_pylist()
        values = records.column("value").to_pylist()
        return tuple(
            read_entry(offset, append_ms, value, self.schema, self.settings.limits)
            for offset, append_ms, value in zip(offsets, times, values, strict=True)
        )

    def cuts(self, since: Day) -> Cuts:
        """The batches that evaluated transactions of a day and later. Raises DayNotArchived if there are none."""
        detector = self.settings.detector.encode()
        files = [file for file in self.manifest.of(Table.PROGRESS) if file.day >= since.number - 1]
        records = read_log(self.store, files, [APPEND, "key", "value"])
        times = records.column(APPEND).cast(pa.int64()).to_pylist()
        keys, values = records.column("key").to_pylist(), records.column("value").to_pylist()
        batches = [
            (at_ms, batch)
            for at_ms, key, value in zip(times, keys, values, strict=True)
            if key == detector and (batch := _progress_or_skip(value)) is not None
        ]
        if not batches:
            raise DayNotArchived(
                f"the archive has no batch of detector {self.settings.detector} since {since}: nothing was evaluated"
            )
        return Cuts.of(batches, self.settings.topics.transactions)

    def feed(self, day: Day, cuts: Cuts | None) -> DayFeed:
        """A day's transactions."""
        return DayFeed(self.store, tuple(self.manifest.of(Table.TRANSACTIONS, day)), self.schema, cuts)

    def feeds(self, days: Iterable[Day], cuts: Cuts | None) -> dict[Day, DayFeed]:
        """The transactions of several days, by day, without empty days."""
        feeds = {day: self.feed(day, cuts) for day in days}
        return {day: feed for day, feed in feeds.items() if feed.files}

    def timeline(self, cuts: Cuts) -> RuleTimeline:
        """The rule log without the detector's refusals, regardless of pins."""
        return RuleTimeline(refused_entries(self.entries(), cuts.refused))


def _progress_or_skip(value: bytes | None) -> BatchProgress | None:
    """Decode a progress record. An unreadable record is logged and gives None."""
    try:
        return decode_progress(value or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        _log.warning("detector-progress: skipped an unreadable record in the archive: %s", ascii(str(error))[1:121])
        return None

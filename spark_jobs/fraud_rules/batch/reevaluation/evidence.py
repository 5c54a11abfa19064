"""Reads a detector's archived rule log, its batches, and its evaluated days."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fraud_rules.batch.archive.columns import APPEND, OFFSET
from fraud_rules.batch.archive.files import open_parquet, read_log
from fraud_rules.batch.archive.log_merge import merged_log
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.cuts import Cuts, CutsBuilder
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayNotArchived, RuleLogForeign
from fraud_rules.kafka.decoding import UNDECODABLE, decode_reason
from fraud_rules.logs.batch_history import WrittenBatch, decode_batch
from fraud_rules.logs.detector_status import rejected_versions
from fraud_rules.model.day import Day
from fraud_rules.model.ruleset import LogEntry
from fraud_rules.model.schema import TransactionSchema

_PROGRESS_COLUMNS: Final = [APPEND, "key", "value"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The offset after the last evaluated transaction, by partition, and the versions that were rejected so far for the
    size of their state."""

    ends: Mapping[int, int]
    rejected: frozenset[int]


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

    def evaluated(self) -> Evaluated:
        """The end of the evaluated transactions, from the newest batches.

        Raises DayNotArchived if there is no batch since that day.
        """
        newest_first = sorted(self.manifest.of(Table.PROGRESS), key=lambda each: max(each.ends.values()), reverse=True)
        for records in (records for file in newest_first for records in self._newest_first(file)):
            ends: dict[int, int] = {}
            rejected: list[int] = []
            for _, batch in self._own(records):
                rejected = rejected_versions(batch.rules_rejected)
                if batch.begins_topic(self.settings.topics.transactions):
                    ends = {}
                ends |= {
                    at: max(end, ends.get(at, 0))
                    for at, end in batch.ends_of(self.settings.topics.transactions).items()
                }
            if ends:
                return Evaluated(ends, frozenset(rejected))
        raise DayNotArchived(f"the archive has no batch of detector {self.settings.detector}: nothing was evaluated")

    def cuts(self, first: Day, last: Day, evaluated: Mapping[int, int]) -> Cuts:
        """The batches that evaluated the transactions of these days.

        They begin a day before the first one, because producers' clocks may be fast. They end with the last batch that
        evaluated one of the days' transactions, but not before the last day is settled. `evaluated` has the ends of all
        batches.
        """
        files = [file for file in self.manifest.of(Table.PROGRESS) if file.day >= first.number - 1]
        builder, rejected = CutsBuilder(), list[object]()
        open_ends = self._ends_to_reach(first, last, evaluated)
        settled_ms = last.end_ms + self.settings.max_out_of_orderness_ms
        for append_ms, batch in self._batches(files):
            ends = batch.ends_of(self.settings.topics.transactions)
            if batch.begins_topic(self.settings.topics.transactions):
                builder.begin_topic(append_ms)
                open_ends = self._ends_to_reach(first, last, evaluated)
            builder.add(ends, batch.rules_end, batch.time_zones)
            for each in batch.warm_ups:
                builder.warm(each.version, append_ms, {int(at): end for at, end in each.ends.items()})
            if batch.rules_rejected != rejected:
                rejected = list(batch.rules_rejected)
                builder.reject(rejected_versions(batch.rules_rejected))
            if open_ends:
                open_ends = {at: end for at, end in open_ends.items() if ends.get(at, 0) < end}
            if append_ms >= settled_ms and not open_ends:
                break
        return builder.build()

    def _ends_to_reach(self, first: Day, last: Day, evaluated: Mapping[int, int]) -> dict[int, int]:
        """The ends after the evaluated transactions of these days, by partition."""
        ends: dict[int, int] = {}
        for file in self.manifest.of(Table.TRANSACTIONS):
            if first.number <= file.day <= last.number:
                for partition, end in file.ends.items():
                    at = int(partition)
                    ends[at] = max(ends.get(at, 0), min(end, evaluated.get(at, 0)))
        return ends

    def _batches(self, files: Sequence[FileEntry]) -> Iterator[tuple[int, WrittenBatch]]:
        """Yield (append time, batch) of this detector, in order."""
        for records in merged_log(self.store, files, _PROGRESS_COLUMNS):
            yield from self._own(records)

    def _newest_first(self, file: FileEntry) -> Iterator[pa.Table]:
        with open_parquet(self.store, file) as opened:
            for group in reversed(range(opened.num_row_groups)):
                yield opened.read_row_group(group, columns=_PROGRESS_COLUMNS)

    def _own(self, records: pa.Table) -> Iterator[tuple[int, WrittenBatch]]:
        """Yield (append time, batch) of this detector. Unreadable records are logged and skipped."""
        own = records.filter(pc.equal(records.column("key"), pa.scalar(self.settings.detector.encode(), pa.binary())))
        times = own.column(APPEND).cast(pa.int64()).to_pylist()
        for append_ms, value in zip(times, own.column("value").to_pylist(), strict=True):
            batch = _batch_or_skip(value)
            if batch is not None:
                yield append_ms, batch

    def feeds(self, days: Iterable[Day]) -> dict[Day, DayFeed]:
        """All transactions of several days, by day, without empty days."""
        feeds = {
            day: DayFeed(self.store, tuple(self.manifest.of(Table.TRANSACTIONS, day)), self.schema, None)
            for day in days
        }
        return {day: feed for day, feed in feeds.items() if feed.files}


def _batch_or_skip(value: bytes | None) -> WrittenBatch | None:
    """Decode a progress record. An unreadable record is logged and gives None."""
    try:
        return decode_batch(value or b"")
    except UNDECODABLE as error:
        _log.warning("detector-progress: skipped an unreadable record in the archive: %s", decode_reason(error))
        return None

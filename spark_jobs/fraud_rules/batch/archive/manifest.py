"""The manifest: the files of the archive, and the end offsets of each log.

One manifest covers every table. So one commit changes all tables, and a reader of a manifest sees transactions, rules,
alerts and batches of the same moment. A table format would commit each table separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from fraud_rules.configuration.settings import TopicNames
from fraud_rules.model.day import Day

FORMAT = 1


class Table(StrEnum):
    """The tables. Transactions, alerts, decisions and corrections are partitioned by event day, the other logs by the
    day of the append time.

    Imported transactions come from files; no detector has evaluated them.
    """

    TRANSACTIONS = "transactions"
    IMPORTED = "imported-transactions"
    ALERTS = "alerts"
    SHADOW_ALERTS = "shadow-alerts"
    DECISIONS = "decisions"
    CORRECTIONS = "alert-corrections"
    RULES = "rules"
    PROGRESS = "detector-progress"
    QUARANTINE = "quarantine"


def tables_of(topics: TopicNames) -> dict[str, Table]:
    """The table of each archived topic."""
    return {
        topics.transactions: Table.TRANSACTIONS,
        topics.alerts: Table.ALERTS,
        topics.shadow_alerts: Table.SHADOW_ALERTS,
        topics.decisions: Table.DECISIONS,
        topics.alert_corrections: Table.CORRECTIONS,
        topics.rules: Table.RULES,
        topics.detector_progress: Table.PROGRESS,
        topics.quarantine: Table.QUARANTINE,
    }


class FileEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One Parquet file. `path` is relative to the archive. Its rows are sorted, see `files`.

    `ends` is the offset after its last record, by partition (as text). The times are the first and last event time.
    """

    table: Table
    day: int
    path: str
    rows: int
    size: int
    first_ms: int
    last_ms: int
    ends: dict[str, int]


class RetiredFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file that a compaction has replaced. Readers of an older manifest may still need it for a while."""

    path: str
    at_ms: int


class ImportedFile(msgspec.Struct, frozen=True, rename="camel"):
    """An imported file: its name, its number of records, the imported rows, and the rejected records by reason.

    `form` is the digest of the schema and the limits that rejected them, empty for an import of an earlier release.
    """

    name: str
    records: int
    rows: int
    rejected: dict[str, int] = msgspec.field(name="refused")
    at_ms: int
    form: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """One version of the archive.

    `ends` is the offset after the last archived record, by topic and partition (as text). `starts` is Kafka's first
    offset when the archive began with the partition: above 0, retention had removed records. The first record may be
    later, because an aborted transaction has offsets too. `topic_ids` are Kafka's ids of these topics, empty until the
    next run if an earlier release made the archive. All transactions that were appended before `complete_until_ms` are
    archived; `open_transaction` is the reason if that is before the last run. `began_ms` is the append time of the
    first archived transaction. `rejected` counts unreadable transactions, which the detector quarantines. `unreadable`
    counts unreadable records of the other logs. `imports` are the imported files, by the digest of their content.
    `erased` are the numbers of the event days from which an erasure removed rows.
    """

    version: int = 0
    format: int = FORMAT
    ends: dict[str, dict[str, int]] = {}
    starts: dict[str, dict[str, int]] = {}
    topic_ids: dict[str, str] = {}
    complete_until_ms: int = 0
    open_transaction: str = ""
    began_ms: int | None = None
    transactions: int = 0
    rejected: int = msgspec.field(name="refused", default=0)
    unreadable: int = 0
    files: tuple[FileEntry, ...] = ()
    retired: tuple[RetiredFile, ...] = ()
    imports: dict[str, ImportedFile] = {}
    erased: tuple[int, ...] = ()

    def of(self, table: Table, day: Day | None = None) -> list[FileEntry]:
        """The files of a table, for one day or for all days."""
        return [file for file in self.files if file.table is table and (day is None or file.day == day.number)]

    def days(self, table: Table) -> list[Day]:
        """The days with files of a table, ascending."""
        return sorted({Day(file.day) for file in self.files if file.table is table})

    def rows(self, table: Table, day: Day) -> int:
        """The number of rows of a table on a day."""
        return sum(file.rows for file in self.of(table, day))

    def with_batch(
        self,
        ends: Mapping[str, Mapping[str, int]],
        added: BatchResult,
        kept: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
    ) -> Manifest:
        """The next version, with files and end offsets of a batch. `kept` are Kafka's first offsets, by topic."""
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            ends={**self.ends, **{topic: dict(places) for topic, places in ends.items()}},
            starts={**self.starts, **{topic: self._starts_of(topic, first) for topic, first in kept.items()}},
            began_ms=added.first_append_ms if self.began_ms is None else self.began_ms,
            transactions=self.transactions + sum(f.rows for f in added.files if f.table is Table.TRANSACTIONS),
            rejected=self.rejected + added.rejected,
            unreadable=self.unreadable + added.unreadable,
            files=(*self.files, *added.files),
        )

    def _starts_of(self, topic: str, kept: Mapping[int, int]) -> dict[str, int]:
        """The starts of a topic's partitions. Kafka's first offset never falls, so a start above it was not Kafka's."""
        known = self.starts.get(topic, {})
        return known | {str(at): min(first, known.get(str(at), first)) for at, first in kept.items()}

    def with_topics(self, topic_ids: dict[str, str]) -> Manifest:
        """The next version, made from the topics with these ids."""
        return msgspec.structs.replace(self, version=self.version + 1, topic_ids=topic_ids)

    def with_import(self, digest: str, imported: ImportedFile, files: Iterable[FileEntry]) -> Manifest:
        """The next version, with the files of an import."""
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            files=(*self.files, *files),
            imports={**self.imports, digest: imported},
        )

    def with_replaced(self, old: Iterable[FileEntry], new: Iterable[FileEntry], now_ms: int) -> Manifest:
        """The next version, in which new files replace old files with the same rows."""
        fresh = tuple(new)
        retired = {file.path for file in old} - {file.path for file in fresh}
        excluded = retired | {file.path for file in fresh}
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            files=(*(file for file in self.files if file.path not in excluded), *fresh),
            retired=(*self.retired, *(RetiredFile(path, now_ms) for path in sorted(retired))),
        )

    def with_erased(self, entry: FileEntry, kept: Iterable[FileEntry], now_ms: int) -> Manifest:
        """The next version, in which files with fewer rows replace a file of an event day."""
        days = tuple(sorted({*self.erased, entry.day}))
        return msgspec.structs.replace(self.with_replaced([entry], kept, now_ms), erased=days)

    def erased_days(self, first: Day, last: Day) -> list[Day]:
        """The days from first to last from which an erasure removed rows, ascending."""
        return [Day(number) for number in self.erased if first.number <= number <= last.number]

    def without_retired(self, before_ms: int) -> tuple[Manifest, list[str]]:
        """The next version without the files that were retired before a time, and the paths of these files."""
        paths = [each.path for each in self.retired if each.at_ms < before_ms]
        kept = tuple(each for each in self.retired if each.at_ms >= before_ms)
        return msgspec.structs.replace(self, version=self.version + 1, retired=kept), paths

    def complete(self, until_ms: int, open_transaction: str = "") -> Manifest:
        """The next version, complete up to a time; `open_transaction` is the reason if the job ran later."""
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            complete_until_ms=max(until_ms, self.complete_until_ms),
            open_transaction=open_transaction,
        )


class BatchResult(msgspec.Struct, frozen=True):
    """The result of one batch of the job: its files.

    `rejected` counts the unreadable transactions, `unreadable` the unreadable records of other logs. `skipped` names
    the first of these records. `first_append_ms` is the first append time of a transaction.
    """

    files: tuple[FileEntry, ...]
    rejected: int
    first_append_ms: int | None = None
    unreadable: int = 0
    skipped: tuple[str, ...] = ()


def small_files(files: Iterable[FileEntry], below_rows: int, below_bytes: int) -> Iterator[FileEntry]:
    """Yield the files with fewer rows and bytes than the limits."""
    return (file for file in files if file.rows < below_rows and file.size < below_bytes)


decode_manifest = msgspec.json.Decoder(Manifest).decode

"""The archive job: copies the new records of the logs to Parquet, then ends.

The manifest defines the content of the archive. It commits the files and the end offsets of a batch together, and the
job reads on from the offsets of the newest manifest. So a killed run loses no record and repeats none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.lag import readable_until
from fraud_rules.batch.archive.manifest import BatchResult, Manifest, Table, tables_of
from fraud_rules.batch.archive.stage import ArchiveShares, ArchiveStage, decode_written
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.archive.topic_identity import check_topics
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ArchiveBehind, ArchiveFailed, ArchiveForeign
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import topic_ends, topic_starts
from fraud_rules.model.lost_records import Offsets
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from fraud_rules.spark.batch_session import batch_session
from fraud_rules.spark.shutdown import job_error
from fraud_rules.stream.inputs import limited

_BATCH_RECORDS = 1_000_000
"""The most records of a batch, which bound its memory."""
_RETIRED_FOR_MS = 3_600_000
"""How long files stay that a compaction has replaced: a reader may still use them."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """The parameters of an archive run.

    `accept_loss` continues without records that retention removed before they were archived.
    """

    store: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    master: str = "local[2]"
    driver_memory: str = "1g"
    accept_loss: bool = False


class ArchiveResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an archive run."""

    version: int
    transactions: int
    rejected: int = msgspec.field(name="refused")
    unreadable: int
    files: int
    days: list[str]
    complete_until_ms: int
    seconds: float


def archive(job: ArchiveJob) -> ArchiveResult:
    """Archive the records that the topics hold now and the archive does not.

    Raises ArchiveBusy, ArchiveBehind, ArchiveForeign, ArchiveDamaged, StorageFull, BrokerUnavailable, ArchiveFailed,
    and OffsetsLost if retention removes records during the run.
    """
    started_ms, started = now_ms(), time.monotonic()
    with job.store.writing():
        before = job.store.latest()
        ids = check_topics(job.kafka, job.store, before, tables_of(job.settings.topics))
        kept = {topic: topic_starts(job.kafka, topic) for topic in tables_of(job.settings.topics)}
        until_ms, hidden = readable_until(job.kafka, job.settings.topics.transactions, started_ms)
        if hidden:
            _log.warning("the archive is not complete up to this run: %s", hidden)
        starts, ends = _offsets(job, before, kept)
        if ids != before.topic_ids:
            job.store.commit(before.with_topics(ids))
        with batch_session("fraud-archive", job.master, job.driver_memory) as spark:
            _run(job, spark, starts, ends, kept)
        manifest = _finish(job, started_ms, until_ms, hidden)
    added = [file for file in manifest.files if file not in before.files]
    return ArchiveResult(
        manifest.version,
        manifest.transactions - before.transactions,
        manifest.rejected - before.rejected,
        manifest.unreadable - before.unreadable,
        len(manifest.files),
        sorted({str(day) for file in added if file.table is Table.TRANSACTIONS for day in manifest.days(file.table)
                if day.number == file.day}),
        manifest.complete_until_ms,
        round(time.monotonic() - started, 3),
    )  # fmt: skip


def _run(
    job: ArchiveJob, spark: SparkSession, starts: Offsets, ends: Offsets, kept: Mapping[str, Mapping[int, int]]
) -> None:
    """Archive the records between the offsets, batch by batch."""
    stage = ArchiveStage(job.store, job.schema, job.settings, tables_of(job.settings.topics))
    tasks = spark.sparkContext.defaultParallelism
    numbers = spark.sparkContext.parallelize(range(tasks), tasks)
    try:
        while starts != ends:
            until = limited(starts, ends, _BATCH_RECORDS)
            blobs = numbers.mapPartitions(ArchiveShares(stage, job.kafka, starts, until, tasks).run).collect()
            _commit(job, until, decode_written(blobs), kept)
            starts = until
    except Exception as error:
        raise job_error(ArchiveFailed, error) from error


def _commit(job: ArchiveJob, ends: Offsets, written: BatchResult, kept: Mapping[str, Mapping[int, int]]) -> None:
    """Commit the files of a batch, and its end offsets."""
    for text in written.skipped:
        _log.warning("an unreadable record is not archived: %s", text)
    if written.unreadable > len(written.skipped):
        _log.warning("%d more unreadable records are not archived", written.unreadable - len(written.skipped))
    job.store.commit(job.store.latest().with_batch(ends, written, kept))


def _finish(job: ArchiveJob, started_ms: int, until_ms: int, hidden: str) -> Manifest:
    """Record the time up to which the archive is complete, merge small files, and delete retired files."""
    manifest = job.store.latest().complete(until_ms, hidden)
    job.store.commit(manifest)
    manifest = compact(job.store, manifest, job.schema, started_ms)
    lean, gone = manifest.without_retired(started_ms - _RETIRED_FOR_MS)
    if gone:
        manifest = lean
        job.store.commit(manifest)
        for path in gone:
            (job.store.root / path).unlink(missing_ok=True)
    job.store.sweep(manifest)
    return manifest


def _offsets(job: ArchiveJob, manifest: Manifest, kept: Mapping[str, Mapping[int, int]]) -> tuple[Offsets, Offsets]:
    """The offsets of the records to archive: from the end of the manifest, or from Kafka's first offset in `kept` if it
    is later, to the end of the visible records.

    Raises ArchiveBehind if records between the two are gone, ArchiveForeign if a topic is shorter than its archive.
    """
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for topic, firsts in kept.items():
        newest = topic_ends(job.kafka, topic)
        for partition, first in firsts.items():
            archived, end = manifest.ends.get(topic, {}).get(str(partition)), newest[partition]
            if archived is not None and archived > end:
                raise ArchiveForeign(
                    f"{topic}-{partition} ends at {end}, but {job.store.root} has {archived} of its "
                    "records: it belongs to another Kafka, or the topic has lost records; archive into a new folder"
                )
            if archived is not None and first > archived and not job.accept_loss:
                raise ArchiveBehind(
                    f"retention has removed the records {archived} to {first} of {topic}-{partition} before they were "
                    "archived; continue without them by --accept-loss, and archive more often"
                )
            starts.setdefault(topic, {})[str(partition)] = max(first, archived or 0)
            ends.setdefault(topic, {})[str(partition)] = end
    return starts, ends

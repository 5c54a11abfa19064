"""The archive job: copies the new records of the logs to Parquet, then ends.

The manifest defines the content of the archive, and Spark's checkpoint must agree with it. A manifest commits the
files, the offsets and the number of a batch together, so the job skips a repeated batch that is committed already. If
the checkpoint does not fit the manifest (because it is lost or older), the job removes it, and the query starts at the
end of the manifest.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from pyspark.sql import DataFrame, SparkSession

from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.completeness import readable_until
from fraud_rules.batch.archive.manifest import Manifest, SourceQuery, Table
from fraud_rules.batch.archive.stage import ARCHIVE_ROW, ArchiveStage, decode_written
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.archive.topic_identity import check_topics
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.errors import ArchiveBehind, ArchiveFailed, ArchiveForeign, FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import topic_ends, topic_starts
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from fraud_rules.spark.append_times import append_time
from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.spark.shutdown import job_error, stop_spark
from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream.checkpoint import end_offsets, known_query

__all__ = ["ArchiveJob", "ArchiveResult", "archive"]

CHECKPOINT = "checkpoint"
_RETIRED_FOR_MS = 3_600_000
_log = logging.getLogger(__name__)
_MAX_FETCH_BYTES = "16777216"


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """The parameters of an archive run. `records_a_batch` bounds the memory of a batch.

    `accept_loss` continues without records that retention removed before they were archived.
    """

    store: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    jars: Path
    master: str = "local[2]"
    driver_memory: str = "1g"
    records_a_batch: int = 1_000_000
    retired_for_ms: int = _RETIRED_FOR_MS
    accept_loss: bool = False


class ArchiveResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an archive run."""

    version: int
    transactions: int
    refused: int
    unreadable: int
    files: int
    days: list[str]
    complete_until_ms: int
    seconds: float


def archive(job: ArchiveJob) -> ArchiveResult:
    """Archive the records that the topics hold now and the archive does not.

    Raises ArchiveBusy, ArchiveBehind, ArchiveForeign, ArchiveDamaged, StorageFull, BrokerUnavailable, ArchiveFailed.
    """
    started_ms, started = now_ms(), time.monotonic()
    with job.store.writing(), ExitStack() as stack:
        before = job.store.latest()
        ids = check_topics(job.kafka, job.store, before, tables_of(job.settings.topics))
        kept = {topic: topic_starts(job.kafka, topic) for topic in tables_of(job.settings.topics)}
        starts = _starting_offsets(job, before, kept)
        until_ms, hidden = readable_until(job.kafka, job.settings.topics.transactions, started_ms)
        if hidden:
            _log.warning("the archive is not complete up to this run: %s", hidden)
        checkpoint = _checkpoint(job, stack)
        _fit_checkpoint(job, before, checkpoint)
        if ids != before.topic_ids:
            job.store.commit(before.with_topics(ids))
        options = SparkOptions(
            checkpoint=str(checkpoint),
            jars=job.jars,
            master=job.master,
            driver_memory=job.driver_memory,
            name="fraud-archive",
        )
        spark = build_session(options)
        stack.callback(stop_spark, spark)
        _run(job, spark, starts, kept, checkpoint)
        manifest = _finish(job, started_ms, until_ms, hidden)
    added = [file for file in manifest.files if file not in before.files]
    return ArchiveResult(
        manifest.version,
        manifest.transactions - before.transactions,
        manifest.refused - before.refused,
        manifest.unreadable - before.unreadable,
        len(manifest.files),
        sorted({str(day) for file in added if file.table is Table.TRANSACTIONS for day in manifest.days(file.table)
                if day.number == file.day}),
        manifest.complete_until_ms,
        round(time.monotonic() - started, 3),
    )  # fmt: skip


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


def _run(
    job: ArchiveJob,
    spark: SparkSession,
    starts: Mapping[str, Mapping[str, int]],
    kept: Mapping[str, Mapping[int, int]],
    checkpoint: Path,
) -> None:
    topics = tables_of(job.settings.topics)
    stage = ArchiveStage(job.store, job.schema, topics, job.settings.record_limits)
    options = {
        **job.kafka.spark(),
        "subscribe": ",".join(topics),
        "startingOffsets": msgspec.json.encode(starts).decode(),
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(job.records_a_batch),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "5000",
        "kafka.fetch.max.bytes": _MAX_FETCH_BYTES,
        "kafka.max.partition.fetch.bytes": _MAX_FETCH_BYTES,
    }
    records = spark.readStream.format("kafka").options(**options).load()
    timestamp = append_time(job.settings.topics.transactions, producer_times=job.settings.producer_times)
    frame = records.select("topic", "partition", "offset", timestamp, "key", "value", "headers")
    folder = DiskFolder(checkpoint)
    failures: list[BaseException] = []

    def on_batch(rows: DataFrame, batch_id: int) -> None:
        try:
            source = SourceQuery(known_query(folder) or "", batch_id)
            _write_batch(job, stage, rows, source, end_offsets(folder, batch_id), kept)
        except BaseException as error:
            failures.append(error)
            raise

    try:
        writer = frame.writeStream.queryName("fraud-archive").foreachBatch(on_batch)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
    except Exception as error:
        cause = failures[0] if failures else error
        raise job_error(ArchiveFailed, cause) from error


def _write_batch(
    job: ArchiveJob,
    stage: ArchiveStage,
    rows: DataFrame,
    source: SourceQuery,
    ends: dict[str, dict[str, int]],
    kept: Mapping[str, Mapping[int, int]],
) -> None:
    """Write and commit the files of a batch, unless it is committed already."""
    manifest = job.store.latest()
    known = manifest.source
    if known is not None and known.query_id == source.query_id and source.batch_id <= known.batch_id:
        return
    table = rows.mapInArrow(stage.run, ARCHIVE_ROW).toArrow()
    written = decode_written(table.column(0).to_pylist())
    for text in written.skipped:
        _log.warning("an unreadable record is not archived: %s", text)
    if written.unreadable > len(written.skipped):
        _log.warning("%d more unreadable records are not archived", written.unreadable - len(written.skipped))
    job.store.commit(manifest.with_batch(source, ends, written, kept))


def _finish(job: ArchiveJob, started_ms: int, until_ms: int, hidden: str) -> Manifest:
    """Record the time up to which the archive is complete, merge small files, and delete retired files."""
    manifest = job.store.latest().complete(until_ms, hidden)
    job.store.commit(manifest)
    manifest = compact(job.store, manifest, job.schema, started_ms)
    lean, gone = manifest.without_retired(started_ms - job.retired_for_ms)
    if gone:
        manifest = lean
        job.store.commit(manifest)
        for path in gone:
            (job.store.root / path).unlink(missing_ok=True)
    job.store.sweep(manifest)
    return manifest


def _starting_offsets(
    job: ArchiveJob, manifest: Manifest, kept: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[str, int]]:
    """The start offsets of a new checkpoint: the end of the manifest, or Kafka's first offset in `kept` if it is later.

    Raises ArchiveBehind if records between the two are gone, ArchiveForeign if a topic is shorter than its archive.
    """
    starts: dict[str, dict[str, int]] = {}
    for topic, firsts in kept.items():
        ends = topic_ends(job.kafka, topic)
        for partition, first in firsts.items():
            archived = manifest.ends.get(topic, {}).get(str(partition))
            if archived is not None and archived > ends[partition]:
                raise ArchiveForeign(
                    f"{topic}-{partition} ends at {ends[partition]}, but {job.store.root} has {archived} of its "
                    "records: it belongs to another Kafka, or the topic has lost records; archive into a new folder"
                )
            if archived is not None and first > archived and not job.accept_loss:
                raise ArchiveBehind(
                    f"retention has removed the records {archived} to {first} of {topic}-{partition} before they were "
                    "archived; continue without them by --accept-loss, and archive more often"
                )
            starts.setdefault(topic, {})[str(partition)] = max(first, archived or 0)
    return starts


def _fit_checkpoint(job: ArchiveJob, manifest: Manifest, checkpoint: Path) -> None:
    """Remove a checkpoint that does not fit the manifest, because the manifest defines the content of the archive.

    A checkpoint from before a topic joined the archive does not fit either: the new one starts at the first record of
    that topic. `accept_loss` always removes the checkpoint, because Spark would resume at the lost records.
    """
    folder = DiskFolder(checkpoint)
    try:
        query, commits = known_query(folder), [int(name) for name in folder.names("commits") if name.isdigit()]
    except FraudError:
        query, commits = "", []
    if query is None:
        return
    source = manifest.source
    last = max(commits, default=-1)
    fits = source is not None and source.query_id == query and last in (source.batch_id, source.batch_id - 1)
    never = source is None and last < 0
    known = source is None or tables_of(job.settings.topics).keys() <= manifest.ends.keys()
    if job.accept_loss or not (fits or never) or not known:
        shutil.rmtree(checkpoint)


def _checkpoint(job: ArchiveJob, stack: ExitStack) -> Path:
    """The folder of Spark's checkpoint. An archive in an object store has a new one for each run: the query starts at
    the end of the manifest anyway.
    """
    root = job.store.root
    if isinstance(root, Path):
        return root / CHECKPOINT
    return Path(stack.enter_context(TemporaryDirectory(prefix="fraud-archive-"))) / CHECKPOINT

"""The detector: checks that it may start, wires everything together, starts the query, and ends it in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fraud_rules.errors import DetectorStopped
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.rule_log import RuleLog, check_rule_log
from fraud_rules.kafka.ticks import TickWriter
from fraud_rules.kafka.writer import BatchWriter, last_record
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark import checkpoint
from fraud_rules.spark.batch import BatchParts, BatchRunner
from fraud_rules.spark.endings import named, signals, stop_query, stop_spark
from fraud_rules.spark.marker import Marker, adopt, adopted_at, check_fits, check_query
from fraud_rules.spark.pins import PinStore
from fraud_rules.spark.pulse import Pulse
from fraud_rules.spark.query import start_query
from fraud_rules.spark.rule_desk import RuleDesk
from fraud_rules.spark.session import SparkOptions, build_session, warm_up
from fraud_rules.spark.storage import DiskFolder, Folder, HadoopFolder
from fraud_rules.spark.worker import WorkerContext

RESUMED = "resumed"
"""A file beside the checkpoint: the offset of the last stop in the rule log that somebody has lifted."""

_LOOK_S = 0.05
_DRAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class DetectorJob:
    """One start of the detector. `resume` lifts a stop that the rule log asked for; `adopt` begins an empty checkpoint
    where the outputs written so far end, instead of refusing to."""

    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    spark: SparkOptions
    resume: bool = False
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What a start that may go on works with. `marker` is None when nothing of this checkpoint's is written."""

    desk: RuleDesk
    writer: BatchWriter
    marker: Marker | None
    starting_offsets: str
    resumed_at: int | None


def run(job: DetectorJob, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run until SIGTERM or SIGINT, which end it after the batch in hand; `on_ready` is called once the query runs.

    Raises DetectorStopped when the rule log asks to stop, and everything else by name: see `errors`.
    """
    drain = threading.Event()
    with ExitStack() as stack:
        stack.enter_context(signals(drain))
        runner, query = _start(job, stack)
        on_ready()
        _watch(query, runner, drain)
    if runner.stopped_at is not None:
        raise DetectorStopped(_stopped_message(runner.stopped_at))


def _start(job: DetectorJob, stack: ExitStack) -> tuple[BatchRunner, StreamingQuery]:
    topics, settings, options = job.settings.topics, job.settings, job.spark
    rules = stack.enter_context(TopicReader(job.kafka, topics.rules))
    check_rule_log(rules)
    admitted = None
    folder: Folder
    if options.checkpoints_to_disk:
        folder = DiskFolder(options.checkpoint_path)
        admitted = _admit(job, folder, rules)
    spark = _spark(options, stack)
    if admitted is None:
        folder = HadoopFolder(spark, options.checkpoint)
        admitted = _admit(job, folder, rules)
    transactions = stack.enter_context(TopicReader(job.kafka, topics.transactions))
    pulse = Pulse(TickWriter(job.kafka, topics.detector_ticks, settings.detector), transactions, settings.tick_ms)
    context = WorkerContext(job.schema, settings, job.kafka, folder.root)
    parts = BatchParts(spark, settings, folder, admitted.desk, admitted.writer, pulse, context.spill())
    parts.spill.clean()
    runner = BatchRunner(parts, admitted.marker, admitted.resumed_at)
    query = start_query(spark, context, admitted.starting_offsets, runner.run)
    stack.callback(stop_query, query)
    pulse.start()
    stack.callback(pulse.stop)
    return runner, query


def _spark(options: SparkOptions, stack: ExitStack) -> SparkSession:
    spark = build_session(options)
    stack.callback(stop_spark, spark)
    warm_up(spark)
    return spark


def _admit(job: DetectorJob, folder: Folder, rules: TopicReader) -> _Admitted:
    """Check that this start fits the checkpoint and what is written in Kafka, fencing every other detector.

    What is mistaken for sure is refused before that, so that it ends no detector that works. All else is read after,
    when another that worked on this checkpoint until now can write no more.
    """
    topics, settings = job.settings.topics, job.settings
    read = [topics.transactions, topics.rules, topics.detector_ticks]
    checkpoint.claim(folder, checkpoint.manifest(settings, job.schema, topic_ids(job.kafka, read)))
    _check_whose(job, folder)
    writer = BatchWriter(job.kafka, f"fraud-rules-{settings.detector}")
    writer.open()
    marker = _read_marker(job)
    progress = checkpoint.read_progress(folder)
    log = RuleLog.on_kafka(job.kafka, topics.rules, job.schema, settings.limits)
    desk = RuleDesk(settings, log, rules, PinStore(folder))
    resumed_at = _check_stop(folder, desk.stopped_at(), resume=job.resume)
    adopted = adopt(folder, marker, progress, wanted=job.adopt)
    if adopted is not None and marker == adopted:
        marker = None
    check_fits(marker, progress, folder.root)
    starting = "earliest" if adopted is None else msgspec.json.encode(adopted.end_offsets).decode()
    return _Admitted(desk, writer, marker, starting, resumed_at)


def _check_whose(job: DetectorJob, folder: Folder) -> None:
    """Raise CheckpointForeign when the checkpoint's query is not the one that has written."""
    marker, query = _read_marker(job), checkpoint.known_query(folder)
    if marker is None or marker == adopted_at(folder) or (job.adopt and query is None):
        return
    check_query(marker, query, folder.root)


def _read_marker(job: DetectorJob) -> Marker | None:
    text = last_record(job.kafka, job.settings.topics.detector_marker, job.settings.detector.encode())
    return None if text is None else Marker.decode(text)


def _check_stop(folder: Folder, stopped_at: int | None, *, resume: bool) -> int | None:
    """Raise DetectorStopped while a stop holds; else the offset of the last one that was lifted."""
    text = folder.read(RESUMED)
    resumed_at = int(text) if text is not None and text.isdigit() else None
    if stopped_at is None or (resumed_at is not None and resumed_at >= stopped_at):
        return resumed_at
    if not resume:
        raise DetectorStopped(_stopped_message(stopped_at))
    folder.create(RESUMED, str(stopped_at).encode(), replace=True)
    return stopped_at


def _stopped_message(offset: int) -> str:
    return f"stopped by the CLEAR_STATE_ALL_STOP at offset {offset} of the rule log: start again with --resume"


def _watch(query: StreamingQuery, runner: BatchRunner, drain: threading.Event) -> None:
    """Return once the query has ended in order; raise why it did not."""
    error: BaseException | None
    try:
        while query.isActive and not runner.draining.is_set():
            if drain.wait(_LOOK_S):
                runner.draining.set()
        deadline = time.monotonic() + _DRAIN_S
        while query.isActive and not runner.is_settled() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        error = None if runner.draining.is_set() else query.exception()
    except (Py4JError, OSError) as lost:
        error = lost
    if runner.failure is not None:
        raise named(runner.failure) from runner.failure
    if error is not None:
        raise named(error) from error

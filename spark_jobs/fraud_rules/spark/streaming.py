"""The detector: wires everything together, starts the query, and ends it in order."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from fraud_rules import errors
from fraud_rules.errors import DetectorFailed, DetectorStopped, FraudError
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.rule_log import RuleLog, check_rule_log
from fraud_rules.kafka.ticks import TickWriter
from fraud_rules.kafka.writer import BatchWriter, last_record
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark import checkpoint
from fraud_rules.spark.batch import BatchParts, BatchRunner
from fraud_rules.spark.marker import Marker, check_fits
from fraud_rules.spark.pins import PinStore
from fraud_rules.spark.pulse import Pulse
from fraud_rules.spark.query import start_query
from fraud_rules.spark.rule_desk import RuleDesk
from fraud_rules.spark.session import SparkOptions, build_session, warm_up
from fraud_rules.spark.storage import Folder, open_folder
from fraud_rules.spark.worker import WorkerContext

RESUMED = "resumed"
"""A file beside the checkpoint: the offset of the last stop in the rule log that somebody has lifted."""

_LOOK_S = 0.05
_DRAIN_S = 60.0
_NAMED = re.compile(r"fraud_rules\.errors\.(\w+): (.+)")


@dataclass(frozen=True, slots=True)
class DetectorJob:
    """One start of the detector. `resume` lifts a stop that the rule log asked for; `adopt` begins an empty checkpoint
    where the outputs written so far end, instead of refusing to."""

    settings: DetectorSettings
    schema: TransactionSchema
    bootstrap: str
    spark: SparkOptions
    resume: bool = False
    adopt: bool = False


def run(job: DetectorJob, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run until SIGTERM or SIGINT, which end it after the batch in hand; `on_ready` is called once the query runs.

    Raises DetectorStopped when the rule log asks to stop, and everything else by name: see `errors`.
    """
    drain = threading.Event()
    with ExitStack() as stack:
        stack.enter_context(_signals(drain))
        runner, query = _start(job, stack)
        on_ready()
        _watch(query, runner, drain)
    if runner.stopped_at is not None:
        raise DetectorStopped(_stopped_message(runner.stopped_at))


def _start(job: DetectorJob, stack: ExitStack) -> tuple[BatchRunner, StreamingQuery]:
    topics, settings = job.settings.topics, job.settings
    rules = stack.enter_context(TopicReader(job.bootstrap, topics.rules))
    check_rule_log(rules)
    wanted = checkpoint.manifest(
        settings, job.schema, topic_ids(job.bootstrap, [topics.transactions, topics.rules, topics.detector_ticks])
    )
    spark = build_session(job.spark)
    stack.callback(spark.stop)
    warm_up(spark)
    folder = open_folder(spark, job.spark.checkpoint, on_disk=job.spark.checkpoints_to_disk)
    checkpoint.claim(folder, wanted)
    progress = checkpoint.read_progress(folder)
    log = RuleLog.on_kafka(job.bootstrap, topics.rules, job.schema, settings.limits)
    desk = RuleDesk(settings, log, rules, PinStore(folder))
    resumed_at = _check_stop(folder, desk.stopped_at(), resume=job.resume)
    writer = BatchWriter(job.bootstrap, f"fraud-rules-{settings.detector}")
    writer.open()
    marker = _read_marker(job)
    adopted = job.adopt and marker is not None and progress.query_id is None
    check_fits(None if adopted else marker, progress, folder.root)
    transactions = stack.enter_context(TopicReader(job.bootstrap, topics.transactions))
    pulse = Pulse(TickWriter(job.bootstrap, topics.detector_ticks, settings.detector), transactions, settings.tick_ms)
    parts = BatchParts(spark, settings, folder, desk, writer, pulse)
    runner = BatchRunner(parts, None if adopted else marker, resumed_at)
    context = WorkerContext(job.schema, settings, job.bootstrap, folder.root)
    starting = msgspec.json.encode(marker.end_offsets).decode() if adopted and marker is not None else "earliest"
    query = start_query(spark, context, starting, runner.run)
    stack.callback(query.stop)
    pulse.start()
    stack.callback(pulse.stop)
    return runner, query


def _read_marker(job: DetectorJob) -> Marker | None:
    text = last_record(job.bootstrap, job.settings.topics.detector_marker, job.settings.detector.encode())
    return None if text is None else Marker.decode(text)


def _check_stop(folder: Folder, stopped_at: int | None, *, resume: bool) -> int | None:
    """Raise DetectorStopped while a stop holds; else the offset of the last one that was lifted."""
    text = folder.read(RESUMED)
    resumed_at = None if text is None else int(text)
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
    while query.isActive and not runner.draining.is_set():
        if drain.wait(_LOOK_S):
            runner.draining.set()
    deadline = time.monotonic() + _DRAIN_S
    while query.isActive and not runner.is_settled():
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    error = query.exception()
    if runner.failure is not None:
        raise runner.failure
    if error is not None and not runner.draining.is_set():
        raise _named(error)


def _named(error: PySparkException) -> FraudError:
    """What ended the query, as one of this product's errors where a worker raised one."""
    text = str(error)
    for name, message in _NAMED.findall(text):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, FraudError):
            named = FraudError(message)
            named.exit_code = kind.exit_code
            return named
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    return DetectorFailed(" ".join(lines)[:600])


@contextmanager
def _signals(drain: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an end in order; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if drain.is_set():
            sys.exit(128 + number)
        drain.set()

    known = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)

"""Runs the detector: checks the start, connects the parts, starts the batches, and shuts the detector down."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from fraud_rules.codec.rules.old_forms import old_form_reports
from fraud_rules.deploy.code import code_digest
from fraud_rules.deploy.work import WorkPhase
from fraud_rules.errors import BrokerUnavailable, DetectorFailed, DetectorStopped
from fraud_rules.kafka.consume import tail_of
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.kafka.reader import TopicReader, has_topic
from fraud_rules.kafka.suitable import check_inputs, check_topics
from fraud_rules.logs.data_health import read_hours
from fraud_rules.logs.detector_status import decode_progress
from fraud_rules.logs.rule_log import check_rule_log
from fraud_rules.model.rule import Rule
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import MS_PER_S
from fraud_rules.runtime.interrupts import interrupts_set
from fraud_rules.spark.master import check_master
from fraud_rules.spark.session import SparkOptions, build_session, check_options
from fraud_rules.spark.shutdown import detector_error, stop_spark
from fraud_rules.stream.announcements import RecordAnnouncements
from fraud_rules.stream.batch_loop import BatchLoop
from fraud_rules.stream.channel import CHANNEL_PORT, CHANNEL_VARIABLE
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.data_health import HealthMeter
from fraud_rules.stream.driver.admission import admit, check, input_topics, stopped_message
from fraud_rules.stream.driver.batch import BatchRunner
from fraud_rules.stream.driver.batch_jobs import BatchJobs
from fraud_rules.stream.driver.channel_server import ChannelServer, serve_channel
from fraud_rules.stream.driver.end_deadline import shutdown_deadline
from fraud_rules.stream.driver.evaluator import Evaluator
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.job import DetectorJob
from fraud_rules.stream.driver.lag_meter import LagMeter
from fraud_rules.stream.driver.latency_meter import LatencyMeter
from fraud_rules.stream.driver.metrics import serve_metrics
from fraud_rules.stream.driver.warm_ups import WarmUpPreparation
from fraud_rules.stream.inputs import InputTopics
from fraud_rules.stream.work import BatchWatch, WorkReport, default_report
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.views import check_views_disk

_POLL_S = 0.05
_SPARK_POLL_S = 1.0
_SETTINGS_POLL_S = 10.0
_DRAIN_S = 60.0
_PROGRESS_RECORDS = 200

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartGate:
    """Holds a start once Spark is ready, so that Spark starts while the previous detector still runs.

    Up to this point the start changes nothing. It calls `on_ready` and continues when
    `file` exists.
    """

    file: Path
    on_ready: Callable[[], None]

    def wait(self, drain: threading.Event) -> bool:
        """Wait for the file. Return False if `drain` is set first."""
        self.on_ready()
        while not self.file.exists():
            if drain.wait(_POLL_S):
                return False
        return True


def run(
    job: DetectorJob,
    on_running: Callable[[], None] = lambda: None,
    hold: StartGate | None = None,
    work: WorkReport | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the detector until SIGTERM or SIGINT. Either signal ends the detector after the current batch.

    `on_running` is called once the batches run. `work` receives the driver's current work; without it, the reports go
    to the file that the environment names, if any. `report` receives each loss that this start accepts, each rule with
    old forms, and the last message of a process that exceeds the deadline of `end_deadline`.
    Raises DetectorStopped if the rule log requests a stop, and the other errors of `fraud_rules.errors`.
    """
    drain, work = threading.Event(), work or default_report()
    with ExitStack() as stack:
        stack.enter_context(interrupts_set(drain))
        ended = threading.Event()
        stack.callback(ended.set)
        stack.callback(work.end)
        with shutdown_deadline(ended, report):
            session = _Session(job.spark, stack, work)
            if hold is not None:
                session.ready_executors()
                work.begin(WorkPhase.READY)
                if not hold.wait(drain):
                    return
            detector = _prepare(job, stack, session, work, report)
            detector.loop.start()
            on_running()
            # Parsing thousands of rules takes a second, and the batches need not wait for it.
            for message in old_form_reports(detector.rules, job.schema, job.settings.limits):
                report(message)
            _watch(detector, job, drain)
    if detector.runner.stopped_at is not None:
        raise DetectorStopped(stopped_message(detector.runner.stopped_at))


@dataclass(frozen=True, slots=True)
class _Detector:
    """The parts of a prepared detector, and the live rules. The loop is not started yet."""

    spark: SparkSession
    runner: BatchRunner
    loop: BatchLoop
    rules: Sequence[Rule]


def _prepare(
    job: DetectorJob, stack: ExitStack, session: _Session, work: WorkReport, report: Callable[[str], None]
) -> _Detector:
    topics, settings = job.settings.topics, job.settings
    _check_host(job)
    rules = stack.enter_context(TopicReader(job.kafka, topics.rules))
    check_rule_log(rules)
    check_topics(job.kafka, topics, producer_times=settings.producer_times)
    admission = admit(job, rules, work, session.spark)
    marker, spark = admission.marker, session.spark()
    rules_in_force = [each.rule for each in admission.pinner.live().rules.values()]
    for loss in admission.new_losses:
        report(f"continues without lost records: {loss}")
    lag = LagMeter(TopicEnds(job.kafka), topics.transactions)
    channel = session.channel()
    context = WorkerContext(
        job.schema, settings, job.kafka, admission.state.partitions, marker.query_id, channel.address, session.code
    )
    metrics = stack.enter_context(serve_metrics(job))
    executors = session.ready_executors()
    watch = BatchWatch(work, channel.progress, partial(_retained_events, job), settings.key_groups)
    meter = LatencyMeter() if has_topic(job.kafka, topics.latency) else None
    evaluator = Evaluator(spark.sparkContext, context, executors, channel)
    stack.callback(evaluator.stop)
    runner = BatchRunner(
        BatchJobs(spark, context, executors, channel, evaluator, job.spark.tasks),
        context,
        admission.pinner,
        admission.writer,
        lag,
        watch,
        channel,
        metrics,
        meter,
        _health_meter(job, marker),
        marker,
        admission.state,
        admission.marks,
        None if job.attempt is None else job.attempt.attempt_id,
    )
    inputs = InputTopics(TopicEnds(job.kafka), input_topics(job), marker.topics, [topics.rules])
    loop = BatchLoop(
        marker.batch_id + 1,
        marker.end_offsets,
        inputs,
        RecordAnnouncements(job.kafka),
        runner.run,
        settings.max_offsets_per_trigger,
        settings.tick_ms / MS_PER_S,
        marker.halvings,
    )
    watch.start()
    stack.callback(watch.stop)
    lag.start()
    stack.callback(lag.stop)
    if has_topic(job.kafka, topics.warm_ups):
        preparation = WarmUpPreparation(spark, context, executors, evaluator, admission.pinner.newest_pin)
        position = admission.pinner.newest_pin().warm_ups_end
        admission.warm_ups.follow(preparation.prepare, loop.wake, position)
        stack.callback(admission.warm_ups.stop)
        stack.callback(preparation.stop)
    stack.callback(work.begin, WorkPhase.STOP)
    work.begin(WorkPhase.QUERY)
    return _Detector(spark, runner, loop, rules_in_force)


def _health_meter(job: DetectorJob, marker: Marker) -> HealthMeter | None:
    hours = read_hours(job.kafka, job.settings, clock.now_ms())
    return None if hours is None else HealthMeter(hours, marker)


def _channel_place(spark: SparkSession) -> tuple[str, str, int]:
    """The host to which tasks connect, the address at which the driver listens, and the port."""
    conf = spark.sparkContext.getConf()
    host = str(conf.get("spark.driver.host"))
    return host, str(conf.get("spark.driver.bindAddress", host)), int(conf.get(CHANNEL_PORT, "0") or 0)


class _Session:
    """Spark's session of a start, built at its first use. `code` is the digest of the driver's code, empty with a local
    master."""

    def __init__(self, options: SparkOptions, stack: ExitStack, work: WorkReport) -> None:
        self._options = options
        self._stack = stack
        self._work = work
        self._built: tuple[SparkSession, ChannelServer, ReadyExecutors] | None = None
        self.code = "" if options.is_local else code_digest()

    def spark(self) -> SparkSession:
        """The session. The Python workers of a new session start in the background."""
        return self._build()[0]

    def channel(self) -> ChannelServer:
        """The server of the driver's channel."""
        return self._build()[1]

    def ready_executors(self) -> ReadyExecutors:
        """Wait for the Python workers of the start. The first batch needs the same workers and cores, so the batches
        start afterwards. The CPU time of other hosts counts as progress. Raises the errors of `ReadyExecutors.join`."""
        _, channel, executors = self._build()
        self._work.begin(WorkPhase.WORKERS)
        executors.join(lambda: self._work.reached(int(channel.prepared_s())))
        return executors

    def _build(self) -> tuple[SparkSession, ChannelServer, ReadyExecutors]:
        if self._built is None:
            self._work.begin(WorkPhase.SESSION)
            spark = build_session(self._options)
            self._stack.callback(stop_spark, spark)
            channel = self._stack.enter_context(serve_channel(*_channel_place(spark)))
            if self.code:
                # All tasks of an executor share a daemon only if their environment is the same.
                spark.sparkContext.environment[CHANNEL_VARIABLE] = channel.address.encode()
            executors = ReadyExecutors(spark, self.code)
            self._stack.callback(executors.stop)
            self._built = spark, channel, executors
        return self._built


def check_start(job: DetectorJob) -> None:
    """Raise each error of a start that is detectable without Spark. It fences no detector and changes nothing."""
    _check_host(job)
    check_master(job.spark.master)
    require_broker(job.kafka)
    with TopicReader(job.kafka, job.settings.topics.rules) as rules:
        check_rule_log(rules)
    check_topics(job.kafka, job.settings.topics, producer_times=job.settings.producer_times)
    check(job)


def _check_host(job: DetectorJob) -> None:
    """Raise ConfigError for wrong options, and StorageFull if the workers' views need more space than this host has."""
    check_options(job.spark)
    if job.spark.is_local:
        check_views_disk(job.settings.detector, job.settings.views_folder)


def _retained_events(job: DetectorJob) -> int | None:
    """The number of events in state after the last written batch. None if it is unknown."""
    topic, detector = job.settings.topics.detector_progress, job.settings.detector.encode()
    try:
        records = tail_of(job.kafka, topic, _PROGRESS_RECORDS)
    except BrokerUnavailable:
        return None
    own = (decode_or_skip(topic, record, decode_progress) for record in reversed(records) if record.key == detector)
    return next((progress.retained_events for progress in own if progress is not None), None)


def _watch(detector: _Detector, job: DetectorJob, drain: threading.Event) -> None:
    """Wait until the loop has ended. Raise the error that ended it, if any.

    A loop without records does not use Spark. So this also asks for Spark every second, and raises its error. Every ten
    seconds it reads the settings of the input topics, and raises TopicUnsuitable.
    """
    loop, looked_s = detector.loop, time.monotonic()
    read_s = looked_s
    while not loop.wait(_POLL_S):
        if drain.is_set():
            loop.stop()
            loop.wait(_DRAIN_S)
            break
        if time.monotonic() >= looked_s + _SPARK_POLL_S:
            looked_s = time.monotonic()
            _require_spark(detector.spark)
        if time.monotonic() >= read_s + _SETTINGS_POLL_S:
            read_s = time.monotonic()
            with suppress(BrokerUnavailable):  # the loop reports it
                check_inputs(job.kafka, job.settings.topics, producer_times=job.settings.producer_times)
    if loop.error is not None:
        raise detector_error(loop.error) from loop.error


def _require_spark(spark: SparkSession) -> None:
    try:
        stopped = spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError) as error:
        raise detector_error(error) from error
    if stopped:
        raise DetectorFailed("Spark has stopped; the next start repeats the current batch")

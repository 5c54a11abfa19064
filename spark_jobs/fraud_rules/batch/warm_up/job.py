"""The warm-up job: executes the open requests of the rule log, then ends.

The rule log and the transactions determine a result, so a job that is repeated, or that runs twice, writes the same
result again. The detector uses the first one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.warm_up.sources import Past, find_past, parts_of
from fraud_rules.batch.warm_up.stages import (
    KEYED_SCHEMA,
    PART_SCHEMA,
    CollectStage,
    PastReader,
    RequestedPart,
    decode_part,
)
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.admission.budget import BYTES_PER_SUM
from fraud_rules.errors import WarmUpFailed
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.open_warm_ups import open_requests
from fraud_rules.logs.rule_status import RuleOperation, RuleReportDocument, WarmUpReport, WarmUpState, read_rules
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpPart, WarmUpResult, digest_of
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import Grouping, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import WarmUpRequest, is_current, request_at
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.priority import yield_cores
from fraud_rules.spark.batch_session import batch_session
from fraud_rules.spark.shutdown import job_error

_POLL_S: Final = 1.0
_LEAST_STEP: Final = 0.05
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class WarmUpJob:
    """The parameters of a run."""

    archive: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    master: str = "local[2]"
    driver_memory: str = "1g"
    niceness: int = 10
    """The niceness of a job with a local master. It yields the cores of its host to a detector there."""

    @property
    def log(self) -> WarmUpLog:
        """The results of this detector's warm-ups."""
        return WarmUpLog(self.kafka, self.settings.topics.warm_ups, self.settings.detector)


class WarmUpOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of one request: its rule record, its rows, and the reason if it is refused."""

    rule_id: int
    version: int
    rows: int
    fault: str = msgspec.field(name="refused")
    digest: str


class FoundPast(NamedTuple):
    """A request with its past, and the detector's report about it."""

    request: WarmUpRequest
    past: Past
    report: RuleOperation


class WarmUpSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The outcomes of a run, in the order of their rule records."""

    warm_ups: list[WarmUpOutcome]
    seconds: float


def warm_up(job: WarmUpJob) -> WarmUpSummary:
    """Execute the open requests. Spark starts only if there is one.

    Raises BrokerUnavailable, ArchiveDamaged, ConfigError, WarmUpFailed.
    """
    started = time.monotonic()
    require_broker(job.kafka)
    waiting = open_requests(job.kafka, job.settings)
    timeline = read_rules(job.kafka, job.schema, job.settings).timeline if waiting else RuleTimeline()
    results: list[WarmUpResult] = []
    found: dict[Grouping, list[FoundPast]] = {}
    archive = job.archive.latest()
    for version, report in waiting.items():
        request = request_at(timeline, version)
        if request is None or not is_current(request, timeline):
            results.append(_undone(job, report, "a clear or the end of the grouping has made it void"))
            continue
        past = find_past(request, job.kafka, job.settings, archive)
        if past.fault:
            results.append(_undone(job, report, past.fault))
        else:
            found.setdefault(request.fields, []).append(FoundPast(request, past, report))
    for result in results:
        job.log.write_result(result)
    with ExitStack() as stack:
        spark = _spark(job, stack) if found else None
        for group in found.values():
            assert spark is not None  # there is a group
            for each, parts in zip(group, _collect(job, spark, group), strict=True):
                results.append(_result(job, each, parts, force=_forces(timeline, each.request)))
                job.log.write_result(results[-1])
    outcomes = [WarmUpOutcome(each.rule_id, each.version, each.rows, each.fault, each.digest) for each in results]
    outcomes.sort(key=lambda each: each.version)
    return WarmUpSummary(outcomes, round(time.monotonic() - started, 3))


def _collect(job: WarmUpJob, spark: SparkSession, group: Sequence[FoundPast]) -> list[dict[int, WarmUpPart]]:
    """Collect the histories of requests of one grouping, by request and key group. The past is read once for all."""
    found: list[dict[int, WarmUpPart]] = [{} for _ in group]
    to_read = parts_of([each.past for each in group])
    if not to_read:
        return found
    requests = [RequestedPart(each.request, each.past.ends) for each in group]
    reading = PastReader([each.request for each in group], to_read, job.archive, job.schema, job.settings, job.kafka)
    collecting = CollectStage(requests, job.schema, job.settings, job.log)
    numbers = spark.range(0, len(to_read), 1, len(to_read))
    keyed = numbers.mapInArrow(reading.run, KEYED_SCHEMA).repartition(job.settings.key_groups, "key_group")
    with _reported(job, spark, [each.report for each in group]):
        try:
            table = keyed.mapInArrow(collecting.run, PART_SCHEMA).toArrow()
        except Exception as error:
            raise job_error(WarmUpFailed, error) from error
    for position, blob in zip(*(column.to_pylist() for column in table.columns), strict=True):
        part = decode_part(blob)
        found[position][part.key_group] = part
    return found


def _result(job: WarmUpJob, found: FoundPast, parts: Mapping[int, WarmUpPart], *, force: bool) -> WarmUpResult:
    """The result of a request with these parts by key group, or a refusal if they exceed the state budget."""
    request, past, report = found
    every = [parts.get(number, WarmUpPart(number, 0, None, [])) for number in range(job.settings.key_groups)]
    needed = sum(part.rows for part in every) * job.settings.state_bytes_per_event
    needed += sum(part.sums for part in every) * BYTES_PER_SUM
    if needed > job.settings.state_budget_bytes and not force:
        return _undone(
            job,
            report,
            f"the history needs about {needed >> 20:,} MiB, over the budget of "
            f"{job.settings.state_budget_bytes >> 20:,} MiB; shorten the window, or set force: true",
        )
    ends = {str(partition): end for partition, end in sorted(past.ends.items())}
    return WarmUpResult(
        request.version,
        request.rule_id,
        request.fields,
        request.reach_ms,
        ends,
        job.settings.key_groups,
        every,
        digest_of(every, ends),
    )


def _undone(job: WarmUpJob, report: RuleOperation, reason: str) -> WarmUpResult:
    """The result of a request that cannot be executed."""
    return WarmUpResult(
        report.rule_version, report.rule_id or 0, (), 0, {}, job.settings.key_groups, [], digest_of([], {}), reason
    )


def _forces(timeline: RuleTimeline, request: WarmUpRequest) -> bool:
    entry = next(each for each in timeline.entries if each.version == request.version)
    return isinstance(entry.change, Rule) and entry.change.force


@contextmanager
def _reported(job: WarmUpJob, spark: SparkSession, reports: Sequence[RuleOperation]) -> Iterator[None]:
    """Report the progress of Spark's tasks for these requests to `rule-operations` while the body runs."""
    ended = threading.Event()

    def run() -> None:
        last, stages = -1.0, set[int]()
        while not ended.is_set():
            share = _completed_share(spark, stages)
            if share >= last + _LEAST_STEP:
                last = share
                append_records(
                    job.kafka, job.settings.topics.rule_operations, [_running(each, share) for each in reports]
                )
            ended.wait(_POLL_S)

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _completed_share(spark: SparkSession, seen: set[int]) -> float:
    """The completed part of the job's two stages, which count equally. `seen` collects the ids of the stages."""
    tracker = spark.sparkContext.statusTracker()
    active = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
    seen.update(stage.stageId for stage in active)
    if not active:
        return min(1.0, max(0, len(seen) - 1) / 2)
    newest = max(active, key=lambda stage: stage.stageId)
    return min(1.0, (len(seen) - 1 + newest.numCompletedTasks / max(1, newest.numTasks)) / 2)


def _running(report: RuleOperation, progress: float) -> tuple[bytes, bytes]:
    running = WarmUpReport(WarmUpState.RUNNING, progress=round(progress, 2), time=now_ms())
    document = RuleReportDocument(
        report.rule_id, report.rule_version, "LIVE", report.batch_id, report.time, warm_up=running
    )
    return str(report.rule_id).encode(), _encode(document)


def _spark(job: WarmUpJob, stack: ExitStack) -> SparkSession:
    if job.master.startswith("local"):
        yield_cores(job.niceness)
    return stack.enter_context(batch_session("fraud-warm-up", job.master, job.driver_memory))

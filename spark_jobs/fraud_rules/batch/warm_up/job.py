"""The warm-up job: executes the open requests of the rule log, then ends.

The rule log and the transactions determine a result, so a job that is repeated, or that runs twice, writes the same
result again. The detector uses the first one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.warm_up.sources import Past, find_past
from fraud_rules.batch.warm_up.stages import KEYED_SCHEMA, PART_SCHEMA, CollectStage, PastReader, decode_part
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import WarmUpFailed
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.open_warm_ups import open_requests
from fraud_rules.logs.rule_status import RuleOperation, WarmUpState, read_rules
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpPart, WarmUpResult, digest_of
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import WarmUpRequest, is_current, request_at
from fraud_rules.runtime.clock import now_ms
from fraud_rules.spark.batch_session import batch_session
from fraud_rules.spark.shutdown import job_error

__all__ = ["WarmUpJob", "WarmUpSummary", "warm_up"]

_POLL_S: Final = 1.0
_LEAST_STEP: Final = 0.05
_NICE: Final = 5
"""The job yields the cores of its host to a detector beside it."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class WarmUpJob:
    """The parameters of a run."""

    archive: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    jars: Path
    master: str = "local[2]"
    driver_memory: str = "1g"

    @property
    def log(self) -> WarmUpLog:
        """The results of this detector's warm-ups."""
        return WarmUpLog(self.kafka, self.settings.topics.warm_ups, self.settings.detector)


class WarmUpOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of one request: its rule record, its rows, and the reason if it is refused."""

    rule_id: int
    version: int
    rows: int
    refused: str
    digest: str


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
    outcomes: list[WarmUpOutcome] = []
    with ExitStack() as stack:
        spark: SparkSession | None = None
        for version, report in waiting.items():
            request = request_at(timeline, version)
            if request is None or not is_current(request, timeline):
                result = _refusal(job, report, "a clear or the end of the grouping has made it void")
            else:
                past = find_past(request, job.kafka, job.settings, job.archive.latest())
                if past.refused:
                    result = _refusal(job, report, past.refused)
                else:
                    spark = spark or _spark(job, stack)
                    result = _collect(job, spark, request, past, report, force=_forces(timeline, request))
            job.log.write_result(result)
            outcomes.append(WarmUpOutcome(result.rule_id, version, result.rows, result.refused, result.digest))
    return WarmUpSummary(outcomes, round(time.monotonic() - started, 3))


def _collect(
    job: WarmUpJob,
    spark: SparkSession,
    request: WarmUpRequest,
    past: Past,
    report: RuleOperation,
    *,
    force: bool,
) -> WarmUpResult:
    """Collect the history of all key groups."""
    reading = PastReader(request, past.parts, job.archive, job.schema, job.settings, job.kafka)
    collecting = CollectStage(request, job.schema, job.settings, job.log)
    parts: dict[int, WarmUpPart] = {}
    if past.parts:
        numbers = spark.range(0, len(past.parts), 1, len(past.parts))
        keyed = numbers.mapInArrow(reading.run, KEYED_SCHEMA).repartition(job.settings.key_groups, "key_group")
        with _reported(job, spark, report):
            try:
                table = keyed.mapInArrow(collecting.run, PART_SCHEMA).toArrow()
            except Exception as error:
                raise job_error(WarmUpFailed, error) from error
        for blob in table.column(0).to_pylist():
            part = decode_part(blob)
            parts[part.key_group] = part
    every = [parts.get(number, WarmUpPart(number, 0, None, [])) for number in range(job.settings.key_groups)]
    needed = sum(part.rows for part in every) * job.settings.state_bytes_per_event
    if needed > job.settings.state_budget_bytes and not force:
        return _refusal(
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


def _refusal(job: WarmUpJob, report: RuleOperation, reason: str) -> WarmUpResult:
    """The result of a request that cannot be executed."""
    return WarmUpResult(
        report.rule_version, report.rule_id or 0, (), 0, {}, job.settings.key_groups, [], digest_of([], {}), reason
    )


def _forces(timeline: RuleTimeline, request: WarmUpRequest) -> bool:
    entry = next(each for each in timeline.entries if each.version == request.version)
    return isinstance(entry.change, Rule) and entry.change.force


@contextmanager
def _reported(job: WarmUpJob, spark: SparkSession, report: RuleOperation) -> Iterator[None]:
    """Report the progress of Spark's tasks to `rule-operations` while the body runs."""
    ended = threading.Event()

    def run() -> None:
        last, stages = -1.0, set[int]()
        while not ended.is_set():
            share = _completed_share(spark, stages)
            if share >= last + _LEAST_STEP:
                last = share
                append_records(job.kafka, job.settings.topics.rule_operations, [_running(report, share)])
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
    document: Mapping[str, object] = {
        "ruleId": report.rule_id,
        "ruleVersion": report.rule_version,
        "status": report.status,
        "batchId": report.batch_id,
        "time": report.time,
        "warmUp": {"state": WarmUpState.RUNNING, "progress": round(progress, 2), "time": now_ms()},
    }
    return str(report.rule_id).encode(), _encode(document)


def _spark(job: WarmUpJob, stack: ExitStack) -> SparkSession:
    if job.master.startswith("local"):
        os.nice(_NICE)
    return stack.enter_context(batch_session("fraud-warm-up", job.jars, job.master, job.driver_memory))

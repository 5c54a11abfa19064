"""The re-evaluation job: replays a day from the archive, compares it with the published alerts, corrects and reports.

Spark distributes the key groups over its tasks. Each task reads the day from the archive itself, without a shuffle.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from fraud_rules.batch.archive.topic_identity import check_topics
from fraud_rules.batch.reevaluation.compare import AlertVerdict
from fraud_rules.batch.reevaluation.corrections import DayCorrections, read_tails
from fraud_rules.batch.reevaluation.page import day_page
from fraud_rules.batch.reevaluation.part import DayWork, PartAccount, run_part
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.batch.reevaluation.run import (
    DayCase,
    DayOptions,
    EvaluateShares,
    empty_result,
    evaluate,
    prepare,
    split_undecided,
)
from fraud_rules.batch.reevaluation.summing import DayAlerts, count_day, differences
from fraud_rules.errors import DayEmpty, DayErased, ReevaluationFailed
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.zones_release import other_releases
from fraud_rules.spark.batch_session import batch_session
from fraud_rules.spark.shutdown import job_error

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PartAccount).decode


@dataclass(frozen=True, slots=True)
class ReevaluationJob:
    """The parameters of a re-evaluation. Without `publish` it only writes a report."""

    options: DayOptions
    kafka: KafkaConnection
    master: str = "local[2]"
    driver_memory: str = "1g"
    publish: bool = True


@dataclass(slots=True)
class _Clock:
    """Measures the time of each phase, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)
    _at: float = field(default_factory=time.monotonic)

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(self.seconds.get(phase, 0.0) + now - self._at, 3)
        self._at = now


def reevaluate(job: ReevaluationJob, spread: EvaluateShares | None = None) -> DayResult:
    """Evaluate a day, publish its missing corrections unless the day is provisional, and save the report.

    A day that depends on erased payments gets a report only, then DayErased if the job publishes. `spread` replaces
    Spark for the evaluation. Raises DayNotArchived, DayEmpty, DayErased, DayTooOld, DayBusy, HistoryLost,
    ArchiveDamaged, ArchiveForeign, RuleLogForeign, StorageFull, BrokerUnavailable, Fenced, ReevaluationFailed.
    """
    clock, store = _Clock(), job.options.store
    require_broker(job.kafka)
    with store.exclusive(job.options.day), ExitStack() as stack:
        before = store.result(job.options.day)
        case = _prepare(job)
        check_topics(job.kafka, job.options.archive, case.evidence.manifest)
        clock.lap("prepare")
        if spread is None:
            spread = over(_spark(job, stack))
            clock.lap("spark")
        run = uuid.uuid4().hex[:12]
        try:
            found, account = evaluate(case, spread, run)
        except Exception as error:
            raise job_error(ReevaluationFailed, error) from error
        clock.lap("evaluate")
        result = _conclude(job, case, run, found, account, clock)
        if result.withheld and before is not None:
            result = msgspec.structs.replace(result, settled=before.settled)
        store.save_result(result, day_page(result))
        store.prune()
    if job.publish and result.erased_days:
        raise DayErased(
            f"{result.withheld}, and alerts of {result.day} can depend on them, so nothing was published: read "
            f"{store.page(job.options.day)}, and use --report-only to evaluate the day again"
        )
    return result


def _prepare(job: ReevaluationJob) -> DayCase:
    """Read the archive. For a day without records, save an empty result."""
    try:
        return prepare(job.options, now_ms())
    except DayEmpty:
        result = empty_result(job.options, now_ms(), publishes=job.publish)
        job.options.store.save_result(result, day_page(result))
        raise


def _conclude(
    job: ReevaluationJob, case: DayCase, run: str, found: DayAlerts, account: PartAccount, clock: _Clock
) -> DayResult:
    """Compare the alerts with the published ones, and publish the corrections."""
    options, manifest = job.options, case.evidence.manifest
    published = PublishedAlerts.archived(options.archive, manifest, options.day)
    read_tails(job.kafka, options.settings.topics, manifest.ends, {options.day: published})
    different, undecided = split_undecided(case, differences(found, published))
    sums = count_day(options.day, found, published, different, case.entries, options.schema)
    clock.lap("compare")
    new = 0
    publishes = job.publish and case.provisional is None and not case.erased
    if publishes:
        correcting = DayCorrections(options.day, run, found.live, found.restrictions, undecided)
        new = correcting.publish(job.kafka, options.settings, manifest.ends, published)
    clock.lap("publish")
    return DayResult(
        day=str(options.day),
        provisional=case.provisional,
        evaluated_ms=now_ms(),
        transactions=account.transactions,
        out_of_order=account.out_of_order,
        published=len(published.live),
        confirmed=sums.counts[AlertVerdict.CONFIRMED],
        added=sums.counts[AlertVerdict.ADDED],
        retracted=sums.counts[AlertVerdict.RETRACTED],
        new_corrections=new,
        rules=sums.rules,
        hours=sums.hours,
        lateness=list(account.lateness),
        corrections=sums.corrections,
        warmed_days=[str(each) for each in case.chain.before],
        seconds=clock.seconds,
        basis=case.basis,
        settled=case.basis if publishes else None,
        report_only=not job.publish,
        other_time_zones=other_releases(case.cuts.time_zones),
        erased_days=[str(each) for each in case.erased],
    )


@dataclass(frozen=True, slots=True)
class ShareStage:
    """Runs in a worker. It evaluates the shares of a day by their numbers."""

    work: DayWork
    parts: Sequence[tuple[int, ...]]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read a column of share numbers, and yield packed accounts.

        Empty blobs in between show progress, because a task without output for long counts as hung.
        """
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for account in run_part(self.work, self.parts[number]):
                    yield _row(b"" if account is None else _encode(account))


def over(spark: SparkSession) -> EvaluateShares:
    """Evaluate on Spark, with one task per share."""

    def spread(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
        numbers = spark.range(0, len(parts), 1, len(parts))
        table = numbers.mapInArrow(ShareStage(work, parts).run, "blob binary").toArrow()
        return [_decode(blob) for blob in table.column(0).to_pylist() if blob]

    return spread


def _spark(job: ReevaluationJob, stack: ExitStack) -> SparkSession:
    return stack.enter_context(batch_session("fraud-reevaluation", job.master, job.driver_memory))


def _row(blob: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([blob], pa.binary())], names=["blob"])

"""The re-evaluation's job: a day replayed from the archive, compared with what was published, corrected, reported.

Spark deals key groups out over its tasks; each reads the day from the archive by itself, so nothing is shuffled.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from fraud_rules.archive.store import ArchiveStore
from fraud_rules.day import Day, days_between
from fraud_rules.errors import ReevaluationFailed
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.corrections import Correcting, read_tails
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.reevaluation.basis import Basis
from fraud_rules.reevaluation.chain import (
    Chain,
    basis_of,
    chain_of,
    check_archived,
    check_history,
    provisional,
    reach_of,
)
from fraud_rules.reevaluation.compare import Verdict
from fraud_rules.reevaluation.cuts import Cuts
from fraud_rules.reevaluation.daystore import DayStore
from fraud_rules.reevaluation.evidence import Evidence
from fraud_rules.reevaluation.page import day_page
from fraud_rules.reevaluation.part import DayWork, PartAccount, read_alerts, run_part, shares
from fraud_rules.reevaluation.published import Published, check_versions, judged_ids, unknown_of
from fraud_rules.reevaluation.report import DayResult
from fraud_rules.reevaluation.summing import Difference, Findings, differences, summed
from fraud_rules.ruleset import LogEntry
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark.endings import named_as, stop_spark
from fraud_rules.spark.session import SparkOptions, build_session

__all__ = ["ReevaluationJob", "in_process", "reevaluate"]

Spread = Callable[[DayWork, Sequence[tuple[int, ...]]], Sequence[PartAccount]]
"""Runs the shares of a work, wherever, and gives their accounts."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PartAccount).decode


@dataclass(frozen=True, slots=True)
class ReevaluationJob:
    """Which day to evaluate. `tasks` 0 leaves it to Spark's parallelism; more tasks take less memory each.

    `incomplete_history` goes on where windows reach back behind the archive; `publish` False only reports.
    """

    day: Day
    store: ArchiveStore
    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    jars: Path
    master: str = "local[2]"
    driver_memory: str = "1g"
    tasks: int = 0
    incomplete_history: bool = False
    publish: bool = True


@dataclass(slots=True)
class _Clock:
    """Where the time goes, in seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)
    _at: float = field(default_factory=time.monotonic)

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(self.seconds.get(phase, 0.0) + now - self._at, 3)
        self._at = now


@dataclass(frozen=True, slots=True)
class _Case:
    """All that is known before the evaluation."""

    evidence: Evidence
    entries: tuple[LogEntry, ...]
    cuts: Cuts
    basis: Basis
    chain: Chain
    provisional: str | None


def reevaluate(job: ReevaluationJob, spread: Spread | None = None) -> DayResult:
    """Evaluate a day, publish what is not published yet unless the day is provisional, and keep the report.

    Raises DayNotArchived, DayEmpty, DayTooOld, DayBusy, HistoryLost, ArchiveDamaged, RuleLogForeign, StorageFull,
    BrokerUnavailable, Fenced.
    """
    clock = _Clock()
    store = DayStore(job.store)
    require_broker(job.kafka)
    with store.alone(job.day), ExitStack() as stack:
        case = _case(job, store)
        clock.lap("prepare")
        if spread is None:
            spark = _spark(job, stack)
            spread = _over(spark)
            clock.lap("spark")
        run = uuid.uuid4().hex[:12]
        for day in case.chain.before:
            with store.alone(day, wait=True):
                _evaluate(job, store, case, day, spread, run)
        clock.lap("daysBefore")
        folder, accounts = _evaluate(job, store, case, job.day, spread, run)
        clock.lap("evaluate")
        result, page = _conclude(job, case, run, Findings.of(read_alerts(folder, accounts)), accounts[0], clock)
        store.save_result(result, page)
        store.prune()
    return result


def in_process(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
    """Run the shares here, one after the other."""
    return [account for part in parts for account in run_part(work, part) if account is not None]


def _case(job: ReevaluationJob, store: DayStore) -> _Case:
    manifest, topic = job.store.latest(), job.settings.topics.transactions
    check_archived(manifest, job.day, topic)
    evidence = Evidence(job.store, manifest, job.schema, job.settings)
    entries = evidence.entries()
    reach = reach_of(entries, job.settings)
    days = list(days_between(job.day.plus(-reach), job.day))
    cuts = evidence.cuts(min((day for day in days if evidence.feed(day, None).files), default=job.day))
    feeds = evidence.feeds(days, cuts)
    basis = basis_of(feeds, job.settings)
    chain = chain_of(job.day, basis, reach, store.state)
    if not job.incomplete_history:
        check_history(manifest, job.day, reach, chain, topic)
    unjudged = sum(file.rows for file in feeds[job.day].files) - basis.rows.get(str(job.day.number), 0)
    reason = provisional(manifest, job.day, job.settings, unjudged, int(time.time() * 1_000))
    return _Case(evidence, entries, cuts, basis, chain, reason)


def _evaluate(
    job: ReevaluationJob, store: DayStore, case: _Case, day: Day, spread: Spread, run: str
) -> tuple[Path, Sequence[PartAccount]]:
    """Replay one day from the end of the one before it, and keep its own end."""
    before = [each for each in case.chain.before if each < day]
    start = case.chain.start
    if before:
        state = store.state(before[-1])
        start = None if state is None else (before[-1], state)
    folder = store.new_folder(day, run)
    work = DayWork(
        job.store,
        day,
        tuple(case.evidence.feed(day, None).files),
        job.schema,
        job.settings,
        case.entries,
        case.cuts,
        start,
        folder,
        int(time.time() * 1_000),
    )
    tasks = job.tasks or 2
    try:
        accounts = sorted(spread(work, shares(job.settings.key_groups, tasks)), key=lambda part: part.key_groups)
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise named_as(ReevaluationFailed, error) from error
    rows = {number: n for number, n in case.basis.rows.items() if int(number) <= day.number}
    store.keep_state(day, folder, msgspec.structs.replace(case.basis, rows=rows))
    return folder, accounts


def _conclude(
    job: ReevaluationJob, case: _Case, run: str, found: Findings, account: PartAccount, clock: _Clock
) -> tuple[DayResult, bytes]:
    """Compare, publish and write down."""
    day, ends = job.day, case.evidence.manifest.ends
    published = Published.archived(job.store, case.evidence.manifest, day)
    read_tails(job.kafka, job.settings.topics, day, ends, published)
    different, undecided = _decided(job, case, differences(found, published), published)
    sums = summed(day, found, published, different, case.entries)
    clock.lap("compare")
    new = 0
    reason = case.provisional or (None if job.publish else "asked only to report")
    if reason is None:
        correcting = Correcting(day, run, found.live, found.restrictions, undecided)
        new = correcting.publish(job.kafka, job.settings, ends, published)
    clock.lap("publish")
    result = DayResult(
        day=str(day),
        provisional=reason,
        evaluated_ms=int(time.time() * 1_000),
        transactions=account.transactions,
        out_of_order=account.out_of_order,
        published=len(published.live),
        confirmed=sums.counts[Verdict.CONFIRMED],
        added=sums.counts[Verdict.ADDED],
        retracted=sums.counts[Verdict.RETRACTED],
        new_corrections=new,
        rules=sums.rules,
        hours=sums.hours,
        lateness=list(account.lateness),
        corrections=sums.corrections,
        warmed_days=[str(each) for each in case.chain.before],
        seconds=clock.seconds,
        basis=case.basis,
    )
    page = day_page(result)
    clock.lap("report")
    return result, page


def _decided(
    job: ReevaluationJob, case: _Case, different: Sequence[Difference], published: Published
) -> tuple[list[Difference], frozenset[str]]:
    """The differences, without alerts of transactions that are not archived yet; and the ids of these."""
    candidates = {each.view.alert_id: each.view for each in different if each.verdict is Verdict.RETRACTED}
    if not candidates:
        return list(different), frozenset()
    ids = judged_ids(job.store, case.evidence.manifest, job.day)
    undecided = frozenset(unknown_of(candidates, ids))
    decided = [each for each in different if each.view.alert_id not in undecided]
    check_versions((view for alert_id, view in candidates.items() if alert_id not in undecided), case.entries)
    return decided, undecided


def _spark(job: ReevaluationJob, stack: ExitStack) -> SparkSession:
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fraud-reevaluation-"))
    spark = build_session(
        SparkOptions(checkpoint=scratch, jars=job.jars, master=job.master, driver_memory=job.driver_memory)
    )
    stack.callback(stop_spark, spark)
    return spark


def _over(spark: SparkSession) -> Spread:
    def spread(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for account in run_part(work, parts[number]):
                        # A task that says nothing for long is taken for hung.
                        yield _row(b"" if account is None else _encode(account))

        table = spark.range(0, len(parts), 1, len(parts)).mapInArrow(run, "blob binary").toArrow()
        return [_decode(blob) for blob in table.column(0).to_pylist() if blob]

    return spread


def _row(blob: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([blob], pa.binary())], names=["blob"])

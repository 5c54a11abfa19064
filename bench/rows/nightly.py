"""Measures the nightly jobs: the re-evaluation of a day, a what-if over past days, and the archive.

The time of a day includes everything from the read of the archive to the compared result: reading, evaluating, saving
the end state and comparing. Spark runs before. No broker takes part, because nothing is published. Memory is the peak
sum of driver, JVM and Python workers, with shared pages counted once.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Self

import psutil

from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.archived import FIRST, MadeArchive
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_10, rule
from bench.lab import Lab
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.batch.reevaluation.run import DayOptions, evaluate, prepare
from fraud_rules.batch.reevaluation.summing import differences
from fraud_rules.batch.whatif.run import WhatIfQuery, what_if
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema

_DAY = 10_000_000
_WEEK_DAY = 2_000_000
_ARCHIVED = 3_000_000
_SAMPLE_S = 0.25


@contextmanager
def _folder() -> Iterator[Path]:
    home = Project.find().var / "bench" / f"nightly-{uuid.uuid4().hex[:8]}"
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class _Memory:
    """The peak memory of this process and its children during the block, in MiB."""

    def __enter__(self) -> Self:
        self.peak_mib = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(_SAMPLE_S):
            held = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    held += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak_mib = max(self.peak_mib, held / 2**20)


def _evaluated(made: MadeArchive, rows: int) -> tuple[float, float]:
    """Return the day's transactions per second, and its peak memory."""
    from fraud_rules.batch.reevaluation.job import over
    from fraud_rules.spark.session import SparkOptions, build_session

    spark = build_session(SparkOptions("local[2]"))
    try:
        spread = over(spark)
        spark.range(2).count()
        with _Memory() as memory:
            started = time.monotonic()
            case = prepare(DayOptions(FIRST, made.store, made.settings, made.schema), 2**50)
            found, account = evaluate(case, spread, uuid.uuid4().hex)
            differences(found, PublishedAlerts.archived(made.store, case.evidence.manifest, FIRST))
            elapsed = time.monotonic() - started
        assert account.transactions == rows, f"{account.transactions} of {rows} evaluated"
        return rows / elapsed, memory.peak_mib
    finally:
        spark.stop()


def _measure_days(_: Lab | None, scale: Scale) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for name, whole, zipf in (
        ("1m", _DAY // 10, None),
        ("10m", _DAY, None),
        ("20m", 2 * _DAY, None),
        ("zipf", _DAY, 1.2),
    ):
        rows = scale.of(whole, 20_000)
        with _folder() as home:
            made = MadeArchive.make(home, RULES_10, rows, zipf=zipf)
            values[f"day_{name}"], values[f"mib_{name}"] = _evaluated(made, rows)
    values["zipf_share"] = 100 * values["day_zipf"] / values["day_10m"]
    values["linear"] = 100 * values["day_20m"] / values["day_10m"]
    return values


def _measure_whatif(_: Lab | None, scale: Scale) -> Mapping[str, float]:
    draft = rule(1, ("payeeId", "beneficiaryId"), "SUM", 1_500)
    with _folder() as home:
        made = MadeArchive.make(home, [draft], scale.of(_WEEK_DAY, 20_000), days=7)
        query = WhatIfQuery("1", FIRST, FIRST.plus(6), (Decimal(1_500),), windows=False)
        one = what_if(query, made.store, made.schema, made.settings)
        curve = what_if(WhatIfQuery("1", FIRST, FIRST.plus(6), windows=False), made.store, made.schema, made.settings)
    assert len(curve.limits) >= 10, "the curve has fewer than 10 limits"
    return {"week_s": one.seconds, "curve_s": curve.seconds, "curve_factor": curve.seconds / one.seconds}


def _measure_archive(lab: Lab, scale: Scale) -> Mapping[str, float]:
    from fraud_rules.batch.archive.job import ArchiveJob, archive

    config = lab.project.config
    with lab.session("archive") as session, _folder() as home:
        settings = replace(DetectorSettings.load(config / "detector.yaml"), topics=session.names)
        schema = TransactionSchema.load(config / "schema.yaml")
        job = ArchiveJob(ArchiveStore(home), settings, schema, session.kafka)
        started = archive(job).seconds
        rows = scale.of(_ARCHIVED, 20_000)
        backlog = Backlog(session.bootstrap, session.names.transactions)
        backlog.hold(islice(transactions(replace(UNIFORM_500K, count=rows)), rows))
        backlog.release()
        result = archive(job)
        assert result.transactions == rows, f"{result.transactions} of {rows} archived"
        counts = [archive(job).files for _ in range(2)]
        return {
            "archive": rows / max(0.001, result.seconds - started),
            "archive_whole": rows / result.seconds,
            "files_more": float(counts[-1] - result.files),
        }


ROWS = (
    Rows(
        "nightly_day",
        "Re-evaluation of a day, `rules10`, 10,000 keys",
        "From archive files, 2% of the transactions up to 20 minutes late, on Spark with two tasks, without Spark's "
        "start. Memory is the sum of driver, JVM and workers.",
        (
            Figure("day_1m", "1 million transactions", "tx/s"),
            Figure("day_10m", "10 million transactions", "tx/s", at_least(150_000), promise=True),
            Figure("day_20m", "20 million transactions", "tx/s"),
            Figure("linear", "20 million in % of 10 million", "%", at_least(90)),
            Figure("day_zipf", "10 million transactions, Zipf keys", "tx/s"),
            Figure("zipf_share", "Zipf in % of uniform", "%", at_least(70)),
            Figure("mib_10m", "memory, 10 million transactions", "MiB", at_most(4_096)),
            Figure("mib_zipf", "memory, Zipf keys", "MiB", at_most(4_096)),
        ),
        _measure_days,
        needs_broker=False,
    ),
    Rows(
        "nightly_whatif",
        "What-if over seven days of 2 million transactions",
        "One SUM rule over (payee, beneficiary) and 20 minutes, in two processes, with their start and end.",
        (
            Figure("week_s", "one limit", "s", at_most(60), promise=True),
            Figure("curve_s", "50 limits", "s"),
            Figure("curve_factor", "50 limits, multiple of one limit", "", at_most(2)),
        ),
        _measure_whatif,
        needs_broker=False,
    ),
    Rows(
        "nightly_archive",
        "The archive",
        "3 million transactions from Kafka to Parquet, without Spark's start.",
        (
            Figure("archive", "transactions", "tx/s", at_least(100_000), promise=True),
            Figure("archive_whole", "the same, with Spark's start", "tx/s"),
            Figure("files_more", "additional files after two further runs", "", at_most(0)),
        ),
        _measure_archive,
    ),
)

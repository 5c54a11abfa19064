"""The time until a rule is warm, and the length of the batch that adds its past, beside a steady stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Any

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_1, rule
from bench.lab import Lab, Session
from bench.meters.watching import quantile
from fraud_rules.logs.rule_status import WarmUpReport, WarmUpState, read_operations
from fraud_rules.runtime.clock import now_ms

_TRANSACTIONS = 10_000_000
_QUICK = 100_000
_PART = 250_000
_RATE = 1_000
_BATCHES = 4_000
_PATIENCE_S = 900.0
_POLL_S = 0.5
_WINDOW_MINUTES = 240
_SPACING_MS = 1

_RULE = rule(99, ["payeeId"], "SUM", 10**12, windowMinutes=_WINDOW_MINUTES, warmUp=True, force=True)
"""A rule with a grouping of its own. It exceeds the state budget by its rows, so it says `force`."""


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    count = _TRANSACTIONS if scale.share >= 1 else _QUICK
    load = replace(UNIFORM_500K, count=count, start_ms=now_ms() - count * _SPACING_MS, spacing_ms=_SPACING_MS)
    with lab.session("warm-up") as session:
        session.start(RULES_1)
        backlog, made = Backlog(session.bootstrap, session.names.transactions), transactions(load)
        for start in range(0, count, _PART):
            backlog.hold(islice(made, _PART))
            backlog.release()
            session.await_evaluated(min(start + _PART, count))
        producer = _steady(session, count)
        try:
            time.sleep(scale.steady_s)
            before = _durations(session)[-100:]
            return _warm(session, before)
        finally:
            producer.kill()
            producer.wait()


def _warm(session: Session, before: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Request a warm-up, run the job, and wait for the batch that adds the result."""
    started = time.monotonic()
    (version,) = session.apply((_RULE,))
    session.await_live([version])
    job = _job(session)
    report = _await_warm(session, version)
    warm_s = time.monotonic() - started
    time.sleep(3)  # the duration of a batch is in the progress of the next one
    during = [each for each in _durations(session) if each["batchId"] > before[-1]["batchId"]]
    joining = next(each for each in during if each["batchId"] == report.batch_id)
    usual_ms = median(_batch_ms(each) for each in before)
    p99_before_ms, p99_during_ms = _p99_ms(before), _p99_ms([each for each in during if each is not joining])
    return {
        "warm_s": warm_s,
        "job_s": job,
        "rows": report.rows,
        "longer_ms": _batch_ms(joining) - usual_ms,
        "p99_before_ms": p99_before_ms,
        "p99_during_ms": p99_during_ms,
        "p99_ratio": p99_during_ms / max(1.0, p99_before_ms),
    }


def _steady(session: Session, id_base: int) -> subprocess.Popen[bytes]:
    options = {"bootstrap": session.bootstrap, "topic": session.names.transactions, "rate": _RATE}
    options |= {"seconds": _PATIENCE_S, "id-base": 10**9 + id_base}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return subprocess.Popen([sys.executable, "-m", "bench.inputs.producing", *arguments], cwd=session.project.root)


def _job(session: Session) -> float:
    """Run the job, and return its own time in seconds."""
    script = str(session.project.root / "spark_jobs" / "warm_up.py")
    arguments = ["--bootstrap", session.bootstrap, "--archive", str(session.files.with_suffix(".archive"))]
    arguments += ["--jars", str(session.project.jars / "connector")]
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env=os.environ | session.environ,
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,  # as the DAG starts it
    )
    seconds: float = json.loads(done.stdout)["seconds"]
    return seconds


def _await_warm(session: Session, version: int) -> WarmUpReport:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        report = read_operations(session.kafka, session.names.rule_operations)[version].warm_up
        if report is not None and report.state is WarmUpState.WARM:
            return report
        session.running.check()
        time.sleep(_POLL_S)
    raise AssertionError(f"the rule is not warm within {_PATIENCE_S:g} s")


def _durations(session: Session) -> list[Mapping[str, Any]]:
    """The timings of the newest batches."""
    return [each["previous"] for each in session.progress(_BATCHES) if each.get("previous")]


def _batch_ms(timings: Mapping[str, Any]) -> float:
    return float(timings["pinMs"] + timings["evaluateMs"] + timings["writeMs"])


def _p99_ms(timings: Sequence[Mapping[str, Any]]) -> float:
    """The 99th percentile of the batches' 99th percentiles."""
    return quantile(sorted(float(each["p99Ms"]) for each in timings if each["p99Ms"] is not None) or [0.0], 0.99)


ROWS = (
    Rows(
        "warm_up",
        "Warm-up of a new rule",
        f"A rule requests the past {_TRANSACTIONS:,} transactions of its grouping, from the topic, beside a stream of "
        f"{_RATE:,} tx/s. The time includes the start of the job's Spark. A p99 is the 99th percentile of the p99 of "
        "the batches, without the batch that adds the past.",
        (
            Figure("rows", "transactions in the added history", ""),
            Figure("warm_s", "time from the request until the rule is warm", "s", at_most(120)),
            Figure("job_s", "of which the job", "s"),
            Figure("longer_ms", "batch that adds the past, longer than usual by", "ms", at_most(500)),
            Figure("p99_before_ms", "p99 before the warm-up", "ms"),
            Figure("p99_during_ms", "p99 during the warm-up", "ms"),
            Figure("p99_ratio", "p99 during, in relation to before", "times", at_most(2)),
        ),
        _measure,
    ),
)

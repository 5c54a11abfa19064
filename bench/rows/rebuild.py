"""The speed and the memory of a rebuild: the state of a detector is recomputed from the topics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import psutil

from bench.detector import Detector
from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_10
from bench.lab import Lab
from fraud_rules.deploy.work import WORK_VARIABLE, Work, WorkPhase

_TRANSACTIONS = 10_000_000
_PART = 250_000
_POLL_S = 0.05
_PATIENCE_S = 1_800.0
_MIB = 1_048_576
_MS_PER_S = 1_000


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    load = replace(UNIFORM_500K, count=scale.of(_TRANSACTIONS))
    with lab.session("rebuild") as session:
        session.start(RULES_10)
        backlog, made = Backlog(session.bootstrap, session.names.transactions), transactions(load)
        for start in range(0, load.count, _PART):
            backlog.hold(islice(made, _PART))
            backlog.release()
            session.await_evaluated(min(start + _PART, load.count))
        session.stop()
        report = session.files.with_suffix(".work")
        session.environ[WORK_VARIABLE] = str(report)
        times_ms, driver_bytes = _watch(session.launch("--rebuild=bench"), report)
        seconds = (times_ms[1] - times_ms[0]) / _MS_PER_S
        return {"tx_s": load.count / seconds, "driver_mib": driver_bytes / _MIB}


def _watch(detector: Detector, report: Path) -> tuple[tuple[int, int], int]:
    """The begin and the end of the recomputation in epoch ms, and the largest resident size of the Python driver."""
    process, since_ms, peak = psutil.Process(detector.pid), 0, 0
    for work in _works(detector, report):
        peak = max(peak, process.memory_info().rss)
        if work.phase is WorkPhase.RECOMPUTE:
            since_ms = work.since_ms
        elif since_ms:
            return (since_ms, work.since_ms), peak
    raise AssertionError(f"the rebuild has not ended within {_PATIENCE_S:g} s")


def _works(detector: Detector, report: Path) -> Iterator[Work]:
    """The driver's current work, again and again."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        detector.check()
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            yield msgspec.json.decode(report.read_bytes(), type=Work)
        time.sleep(_POLL_S)


ROWS = (
    Rows(
        "rebuild",
        "Rebuild of the state",
        f"`fraud rebuild` of {_TRANSACTIONS:,} transactions with `rules10`, from the topics. The time excludes the "
        "start of Spark. It includes the start of the Python workers and the transaction that replaces the state.",
        (
            Figure("tx_s", "Transactions recomputed", "tx/s", at_least(100_000)),
            Figure("driver_mib", "Peak memory of the Python driver", "MiB"),
        ),
        _measure,
    ),
)

"""Measures starts of a detector on a machine with far more work than cores."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from statistics import median

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_10
from bench.lab import Lab, Session

_BUSY = 14
_STARTS = 10
_BEFORE = 100_000
_WAITING = 1_000


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("busy-starts") as session:
        session.start(RULES_10)
        backlog, made = Backlog(session.bootstrap, session.names.transactions), transactions(UNIFORM_500K)
        backlog.hold(islice(made, _BEFORE))
        backlog.release()
        session.await_evaluated(_BEFORE)
        session.stop()
        starts, seconds = scale.of(_STARTS, 2), []
        with _busy():
            for _ in range(starts):
                backlog.hold(islice(made, _WAITING))
                backlog.release()
                taken_s = _start(session)
                session.running.kill()
                if taken_s is not None:
                    seconds.append(taken_s)
        return {
            "attempts": float(starts),
            "succeeded": float(len(seconds)),
            "share": 100 * len(seconds) / starts,
            **({"median_s": median(seconds), "longest_s": max(seconds)} if seconds else {}),
        }


def _start(session: Session) -> float | None:
    """The seconds from the start of the process until a consumer has the first batch with the waiting transactions.
    None if the start fails."""
    progress = session.received(session.names.detector_progress)
    detector = session.launch()
    try:
        for received in progress:
            if json.loads(received.record.value or b"{}")["rows"]:
                return time.monotonic() - detector.started
    except RuntimeError as error:
        print(f"a start failed: {error}", flush=True)
    return None


@contextmanager
def _busy() -> Iterator[None]:
    """Run processes that only use the CPU."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


ROWS = (
    Rows(
        "busy_starts",
        "Starts on a busy machine",
        f"{_BUSY} processes only use the CPU. {_STARTS} times, a detector with `rules10` and a state of {_BEFORE:,} "
        f"transactions is started beside them, while {_WAITING:,} transactions wait, and killed (kill -9) after its "
        "first batch. A start without a batch, an end or a sign of life for five minutes has failed.",
        (
            Figure("attempts", "starts", ""),
            Figure("share", "starts that reached a first batch", "%", at_least(100)),
            Figure("median_s", "start of the process to the first batch, median", "s"),
            Figure("longest_s", "start of the process to the first batch, longest", "s"),
        ),
        _measure,
    ),
)

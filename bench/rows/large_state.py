"""Measures the recovery of a detector with ten million retained events, on one host and on a cluster."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import PAIR, Document, rule
from bench.lab import Lab, Session
from bench.meters.recovery import recovery_s
from bench.small_cluster import small_cluster
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from tests.support.processes.spark_cluster import StandaloneCluster
from tests.support.waiting import until

_EVENTS = 10_000_000
_GROUPINGS = 2
_PART = 250_000
_SPACING_MS = 1
_RATE = 1_000
_CLUSTER_RATE = 200
"""Low enough that no batch is large after a short stall, so that the other worker gets no views."""
_STEADY_S = 3_600
_SETTLED_BATCHES = 10
_PATIENCE_S = 300.0
_EXECUTOR_CORES = 2
_RULES: tuple[Document, ...] = (
    rule(1, PAIR, "SUM", 10**12, windowMinutes=1_440),
    rule(2, ["payeeId"], "SUM", 10**12, windowMinutes=1_440),
)


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("large-state") as session:
        session.start(_RULES)
        _fill(session, scale.of(_EVENTS) // _GROUPINGS)
        with session.steady(_RATE, _STEADY_S, _EVENTS):
            _settle(session)
            values = {"events": float(session.progress()[-1]["retainedEvents"])}
            values["kill_s"] = recovery_s(session)
            _settle(session)
            values["kill_without_views_s"] = recovery_s(session, session.remove_files)
            _settle(session)
        session.stop()
        with (
            small_cluster(session.files.with_suffix(".cluster"), 2, _EXECUTOR_CORES) as (cluster, options),
            session.steady(_CLUSTER_RATE, _STEADY_S, 2 * _EVENTS),
        ):
            session.launch(*options, "--driver-memory", "700m")
            values["executor_s"] = _lose_executor(session, cluster)
            session.stop()
    return values


def _fill(session: Session, count: int) -> None:
    """Let the detector evaluate payments whose event times end now, so that a window of a day retains all of them."""
    load = replace(
        UNIFORM_500K, count=count, start_ms=now_ms() - count * _SPACING_MS, spacing_ms=_SPACING_MS, marker_every=0
    )
    backlog, made = Backlog(session.bootstrap, session.names.transactions), transactions(load)
    for _ in range(0, count, _PART):
        backlog.hold(islice(made, _PART))
        backlog.release()
    session.await_evaluated(count)


def _settle(session: Session) -> None:
    """Wait until the detector has caught up: many batches in a row are small."""
    small = 0
    for received in session.received(session.names.detector_progress):
        small = small + 1 if json.loads(received.record.value or b"{}")["rows"] < LARGE_BATCH_TRANSACTIONS else 0
        if small == _SETTLED_BATCHES:
            return


def _lose_executor(session: Session, cluster: StandaloneCluster) -> float:
    """The seconds from the kill of the worker with the views until a batch is committed whose views the other worker
    has restored. The other worker has no views before."""
    until(lambda: min(cluster.executors(0), cluster.executors(1)) > 0, "both workers have executors", _PATIENCE_S)
    _settle(session)
    first = max((0, 1), key=cluster.newest_version)
    other = 1 - first
    cluster.kill_worker(other)
    shutil.rmtree(cluster.folder(other))
    cluster.return_worker(other)
    until(lambda: cluster.executors(other) > 0, "the other worker has an executor again", _PATIENCE_S)
    _settle(session)
    assert not cluster.views(other), "the other worker has views already"
    progress = session.received(session.names.detector_progress)
    key_groups = len(cluster.views(first))
    killed = time.monotonic()
    cluster.kill_worker(first)
    restored = 0
    for received in progress:
        restored += json.loads(received.record.value or b"{}")["viewRebuilds"]
        if restored >= key_groups:
            break
    return time.monotonic() - killed


ROWS = (
    Rows(
        "large_state",
        "Recovery with ten million retained events",
        f"{_EVENTS // _GROUPINGS:,} transactions in windows of a day under two rules, then {_RATE:,} tx/s. kill -9 of "
        "all processes and a restart, with and without the views of the host. Then a standalone cluster of two workers "
        f"on this machine at {_CLUSTER_RATE} tx/s: the worker with the views is killed, and the other one restores "
        "all key groups.",
        (
            Figure("events", "retained events", ""),
            Figure("kill_s", "kill -9 to next committed batch", "s", at_most(30)),
            Figure(
                "kill_without_views_s",
                "kill -9 and loss of the views to next committed batch",
                "s",
                at_most(30),
                promise=True,
            ),
            Figure("executor_s", "executor lost to a batch with all key groups restored", "s", at_most(30)),
        ),
        _measure,
    ),
)

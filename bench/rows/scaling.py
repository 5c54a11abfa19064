"""Scaling: one core and two, a cluster of four small workers, and the driver's serial share of a batch.

The phases *pin* and *write* run on the driver alone. Their share of a batch bounds what more cores can give (Amdahl).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.figures import Figure, Rows, Scale
from bench.inputs.loads import UNIFORM_500K
from bench.inputs.rulesets import RULES_10
from bench.lab import Lab, Session
from bench.rows.backlog import Backlogs
from bench.small_cluster import small_cluster

_ONE_CORE = ("--master", "local[1,4]", "--tasks", "1")
_WORKERS = 4


def _measure_cores(lab: Lab, scale: Scale) -> Mapping[str, float]:
    """Measure a detector that may use one core of the machine, and one that may use two."""
    cores = sorted(os.sched_getaffinity(0))
    with _on_cores(cores[:1]):
        one = _measured(lab, scale, *_ONE_CORE)
    with _on_cores(cores[:2]):
        two = _measured(lab, scale)
    values = {f"one_{name}": value for name, value in one.items()} | {f"two_{name}": two[name] for name in two}
    return {**values, "speed_up": two["per_s"] / one["per_s"]}


def _measure_cluster(lab: Lab, scale: Scale) -> Mapping[str, float]:
    """Measure a detector whose tasks run on the workers of a standalone cluster."""
    with small_cluster(lab.home / "cluster", _WORKERS) as (cluster, options):
        values = _measured(lab, scale, *options, "--tasks", str(_WORKERS))
        return {**values, "executors": float(sum(cluster.executors(number) for number in range(_WORKERS)))}


@contextlib.contextmanager
def _on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Let this process, and the processes that it starts in the block, use only these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measured(lab: Lab, scale: Scale, *options: str) -> dict[str, float]:
    """Measure the backlog `uniform_500k` with `rules10`, and the phases of its batches, of a detector with options."""
    with lab.session("scaling") as session:
        session.start(RULES_10, *options)
        loads = Backlogs(session, scale)
        per_s = loads.per_s(UNIFORM_500K)
        return {"per_s": per_s, **_shares(_timings(session, loads.batches))}


def _timings(session: Session, batches: range) -> list[Mapping[str, Any]]:
    """The timings of some batches with transactions. The progress of the next batch has those of a batch."""
    found = []
    for received in session.received(session.names.detector_progress, from_start=True):
        timings = json.loads(received.record.value or b"{}").get("previous")
        if timings is not None and timings["batchId"] in batches and timings["rows"]:
            found.append(timings)
        if timings is not None and timings["batchId"] >= batches.stop - 1:
            break
    return found


def _shares(timings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean batch, and the driver's share of it."""
    driver_ms = sum(each["pinMs"] + each["writeMs"] for each in timings)
    whole_ms = driver_ms + sum(each["evaluateMs"] for each in timings)
    return {
        "rows": sum(each["rows"] for each in timings) / len(timings),
        "batch_ms": whole_ms / len(timings),
        "driver_ms": driver_ms / len(timings),
        "driver_share": 100 * driver_ms / whole_ms,
    }


def _figures(prefix: str, of: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{prefix}per_s", f"`uniform_500k`{of}", "tx/s"),
        Figure(f"{prefix}rows", f"transactions per batch{of}", ""),
        Figure(f"{prefix}batch_ms", f"mean batch{of}", "ms"),
        Figure(f"{prefix}driver_ms", f"the driver's part of it, pin and write{of}", "ms"),
        Figure(f"{prefix}driver_share", f"the driver's part of a batch{of}", "%"),
    )


ROWS = (
    Rows(
        "scaling_cores",
        "Scaling: one core and two, `rules10`",
        "The detector may use one core and one task; then two cores and two tasks. The broker may use all cores.",
        (
            *_figures("one_", ", one core"),
            *_figures("two_", ", two cores"),
            Figure("speed_up", "two cores / one core", ""),
        ),
        _measure_cores,
    ),
    Rows(
        "scaling_cluster",
        f"Scaling: a standalone cluster of {_WORKERS} small workers, `rules10`",
        "Each worker has one core and 1 GiB. Cluster, driver and broker share the machine's two cores, so the rate "
        "shows the cost of a cluster, not its gain.",
        (
            *_figures("", ""),
            Figure("executors", "executors that the cluster has started", ""),
        ),
        _measure_cluster,
    ),
)

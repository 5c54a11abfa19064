"""Runs one step after another, with event time ahead of wall time, and samples sizes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import psutil

from bench.figures import Figure, at_most

TOLERATED = 5
_SAMPLES = 90
_LEAST_SAMPLES = 3
_MIB = 2**20


def run(minutes: float, step: Callable[[int], None], sizes: Callable[[], Mapping[str, float]]) -> dict[str, Any]:
    """Call `step` with 0, 1, 2, ... until the minutes have passed and there are enough samples, and return the summary
    of the sampled sizes.

    A sample has the values of `sizes`, the resident memory of the process (`rss_mib`), and the CPU time of a step since
    the sample before (`cpu_ms`). The samples are evenly spaced, at least one step apart.
    """
    start, seconds = time.monotonic(), minutes * 60
    series: list[dict[str, float]] = []
    done, before_step, before_cpu = 0, 0, time.process_time()
    while (passed := time.monotonic() - start) < seconds or len(series) < _LEAST_SAMPLES:
        step(done)
        done += 1
        if passed >= len(series) * seconds / _SAMPLES:
            cpu = time.process_time()
            series.append(
                {
                    "at_s": round(passed),
                    "steps": done,
                    "rss_mib": psutil.Process().memory_info().rss / _MIB,
                    "cpu_ms": 1000 * (cpu - before_cpu) / (done - before_step),
                    **sizes(),
                }
            )
            before_step, before_cpu = done, cpu
    kinds = [kind for kind in series[-1] if kind not in ("at_s", "steps")]
    return summary(series, kinds) | {"steps": done, "series": series}


def summary(series: Sequence[Mapping[str, float]], kinds: Sequence[str]) -> dict[str, float]:
    """Return by kind the mean of the last third, and its increase over the previous third in %."""
    third = len(series) // 3
    found: dict[str, float] = {"minutes": series[-1]["at_s"] / 60}
    for kind in kinds:
        before = fmean(sample[kind] for sample in series[third : 2 * third])
        last = fmean(sample[kind] for sample in series[2 * third :])
        found[kind] = last
        found[f"{kind}_growth"] = 100 * (last / before - 1) if before else 0.0
    return found


def flat(kind: str, title: str, unit: str) -> tuple[Figure, Figure]:
    """A size in the last third of a run, and its increase over the previous third."""
    return (
        Figure(kind, f"{title}, last third", unit),
        Figure(f"{kind}_growth", f"{title}, increase over the previous third", "%", at_most(TOLERATED)),
    )


STEPS = (
    Figure("minutes", "run", "minutes"),
    Figure("steps", "steps", ""),
    *flat("cpu_ms", "CPU time of a step", "ms"),
)
COMMON = (*STEPS, *flat("rss_mib", "RSS of the process", "MiB"))

"""Measures the latency of alerts at a live `read_committed` consumer, under a steady load."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.detector import command
from bench.figures import Figure, Rows, Scale, Target, at_least, at_most
from bench.inputs.rulesets import CANARY, FIRE_ALL, RULES_10, Document, many
from bench.lab import Lab, Session
from bench.meters.pauses import pauses
from bench.meters.under_load import FIGURES, metered

_IDS_APART = 10_000_000
_MANY_RULES, _MANY_GROUPINGS = 250, 20
_RATES = (100, 1_000, 2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000)
_OVERLOADED_MS = 1_000.0
"""A p50 above this shows that the detector does not keep up with the rate."""
_KNEE_MS = 200.0
"""The p50 below which a rate is before the knee."""
_RATE_TARGETS = {
    (5_000, "p50_ms"): at_most(45),
    (5_000, "p99_ms"): at_most(120),
    (10_000, "p50_ms"): at_most(90),
    (10_000, "p99_ms"): at_most(200),
}


@dataclass(frozen=True, slots=True)
class Steady:
    """A steady load: its rate in tx/s, the unmeasured seconds at its start (None: the scale's value), and
    the number after which its ids start."""

    rate: float
    skip_s: float | None = None
    ids: int = 0


def watched(session: Session, load: Steady, scale: Scale) -> Mapping[str, float]:
    """Run load and reader in separate processes. Return the reader's latencies and the load's punctuality."""
    skip_s = scale.skip_s if load.skip_s is None else load.skip_s
    seconds = scale.steady_s - scale.skip_s + skip_s
    watching = ["--bootstrap", session.bootstrap, "--alerts", session.names.alerts, "--skip-seconds", str(skip_s)]
    with command("bench.meters.watching", *watching) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "ready\n"
        with metered(session) as meters:
            with session.steady(load.rate, seconds, load.ids) as produce:
                made, _ = produce.communicate(timeout=seconds + 60)
            seen, _ = watch.communicate(timeout=120)
    session.running.check()
    found = json.loads(seen)
    assert not found["duplicates"], f"{found['duplicates']} alerts came twice"
    expected = int(load.rate * seconds)
    assert found["alerts"] == expected, f"{found['alerts']} alerts for {expected} transactions"
    kept = ("p50_ms", "p95_ms", "p99_ms", "max_ms", "max_at_s")
    return {name: found[name] for name in kept} | json.loads(made) | meters.values


@contextmanager
def _session(lab: Lab, scale: Scale) -> Iterator[Session]:
    """A session on a warm broker: the compiler of a new one takes up to half a core for two minutes."""
    if not lab.broker_is_warm.is_set():
        with lab.session("warm") as session:
            session.start(FIRE_ALL)
            watched(session, Steady(1_000), replace(scale, steady_s=3 * scale.steady_s))
        lab.broker_is_warm.set()
    with lab.session("latency") as session:
        yield session


def _measure_fire_all(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with _session(lab, scale) as session:
        session.start(FIRE_ALL)
        fast = watched(session, Steady(1_000), scale)
        slow = watched(session, Steady(10, skip_s=1.0, ids=_IDS_APART), scale)
        collected = pauses(session.pause_log)
    return {**fast, **{f"slow_{name}": value for name, value in slow.items()}, **collected}


def _measure_rates(lab: Lab, scale: Scale) -> Mapping[str, float]:
    """Measure the rates in ascending order, up to the first one that overloads the machine."""
    values: dict[str, float] = {}
    with _session(lab, scale) as session:
        session.start(FIRE_ALL)
        for number, rate in enumerate(_RATES):
            found = watched(session, Steady(rate, ids=number * _IDS_APART), scale)
            values |= {f"r{rate}_{name}": value for name, value in found.items()}
            if found["p50_ms"] < _KNEE_MS:
                values["knee"] = rate
            if found["p50_ms"] > _OVERLOADED_MS:
                break
    return values


def _measure_rules(lab: Lab, scale: Scale, rules: tuple[Document, ...]) -> Mapping[str, float]:
    with _session(lab, scale) as session:
        session.start((*rules, CANARY))
        return watched(session, Steady(1_000), scale)


_HOW = (
    "From the producer's write of the transaction until a live `read_committed` consumer in another process has the "
    "alert."
)
_CANARY = "The same. An additional rule fires on every transaction."


def _percentiles(targets: Mapping[str, Target], prefix: str = "", of: str = "") -> list[Figure]:
    names = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "max_ms": "largest"}
    return [
        *(
            Figure(prefix + key, f"{of}{title}", "ms", targets.get(key), promise=key in targets)
            for key, title in names.items()
        ),
        Figure(f"{prefix}max_at_s", f"{of}send time of the slowest alert's transaction, after the load's start", "s"),
        *(replace(meter, key=prefix + meter.key, title=of + meter.title) for meter in FIGURES),
    ]


ROWS = (
    Rows(
        "latency_fire_all",
        "Latency, `fire_all`: every transaction alerts",
        _HOW,
        (
            *_percentiles(
                {"p50_ms": at_most(30), "p99_ms": at_most(65)},
                of="1,000 tx/s, ",
            ),
            *_percentiles({"p50_ms": at_most(15), "p99_ms": at_most(30)}, "slow_", of="10 tx/s, "),
            Figure("gc_full", "full garbage collections of the JVM since its start", ""),
            Figure("gc_longest_ms", "longest garbage collection pause of the JVM", "ms"),
        ),
        _measure_fire_all,
    ),
    Rows(
        "latency_rates",
        "Latency, `fire_all` at other rates",
        _HOW,
        (
            Figure("knee", f"highest rate with a p50 below {_KNEE_MS:.0f} ms", "tx/s", at_least(15_000)),
            *(
                Figure(f"r{rate}_{key}", f"{rate:,} tx/s, {title}", unit, _RATE_TARGETS.get((rate, key)))
                for rate in _RATES
                for key, title, unit in (
                    ("p50_ms", "p50", "ms"),
                    ("p99_ms", "p99", "ms"),
                    ("large_share", "transactions in large batches", "%"),
                    ("cores", "CPU of the detector", "cores"),
                )
            ),
        ),
        _measure_rates,
    ),
    Rows(
        "latency_rules10",
        "Latency, `rules10` at 1,000 tx/s",
        _CANARY,
        tuple(_percentiles({"p50_ms": at_most(45), "p99_ms": at_most(90)})),
        lambda lab, scale: _measure_rules(lab, scale, RULES_10),
    ),
    Rows(
        "latency_250_rules",
        "Latency, 250 rules over 20 groupings at 1,000 tx/s",
        f"{_CANARY} All eight aggregators and windows of 1 to 20 minutes take turns.",
        tuple(_percentiles({"p50_ms": at_most(90), "p99_ms": at_most(200)})),
        lambda lab, scale: _measure_rules(lab, scale, many(_MANY_RULES, _MANY_GROUPINGS)),
    ),
)

"""Throughput over a backlog.

A warm, idle detector sees the whole load at one instant: the commit of the Kafka transaction that contains the load.
The clock starts at this commit and stops at the append time of the last marker's alert. So the time excludes the start
and the write of the load. It includes everything from the first read to the transaction that contains the alerts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, WARM_100K, ZIPF_500K, Load, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_1, RULES_10, RULES_10_V2, Document
from bench.lab import Lab, Session

APART_MS = 3_600_000
"""Event time between two loads: longer than any window plus the lateness, so that no window has two loads."""

_DAY_MS = 86_400_000
_WARM_PARTS = 5


def warm_up(session: Session, backlog: Backlog, scale: Scale) -> Load:
    """Let the detector evaluate `warm_100k` in several batches before the measurement."""
    load = WARM_100K.first(scale.of(WARM_100K.count))
    made = transactions(load)
    for part in range(_WARM_PARTS):
        backlog.hold(islice(made, load.count // _WARM_PARTS))
        backlog.release()
        session.await_evaluated(load.count // _WARM_PARTS * (part + 1))
    return load


def throughput(session: Session, load: Load, started_ms: int) -> float:
    """Return transactions per second up to the last marker. Each marker must have exactly one alert."""
    seen = marker_times(session.alerts(), load)
    assert len(seen) == load.markers, f"{len(seen)} of {load.markers} markers have alerts"
    evaluated = load.count // load.marker_every * load.marker_every
    return evaluated * 1_000 / (max(seen.values()) - started_ms)


def marker_times(alerts: Sequence[tuple[int, Mapping[str, Any]]], load: Load) -> dict[int, int]:
    """Return the append time of rule 1's alert for each marker, by position. Raises if an alert comes twice."""
    times: dict[int, int] = {}
    for append_ms, alert in alerts:
        i = alert["triggeringEvent"]["transactionId"] - load.id_base - 1
        if alert["ruleId"] == 1 and 0 <= i < load.count and load.is_marker(i):
            assert i not in times, f"marker {i} has two alerts"
            times[i] = append_ms
    return times


def _measure(lab: Lab, scale: Scale, rules: tuple[Document, ...], apart_ms: int = APART_MS) -> dict[str, float]:
    with lab.session("backlog") as session:
        session.start(rules)
        backlog = Backlog(session.bootstrap, session.names.transactions)
        before = warm_up(session, backlog, scale)
        total, values = before.count, {}
        for whole in (UNIFORM_500K, ZIPF_500K):
            load = whole.first(scale.of(whole.count)).after(before, apart_ms)
            backlog.hold(transactions(load))
            started_ms = backlog.release()
            total += load.count
            session.await_evaluated(total)
            values[load.name] = throughput(session, load, started_ms)
            before = load
        values["zipf_share"] = 100 * values[ZIPF_500K.name] / values[UNIFORM_500K.name]
        return values


def _measure_v2(lab: Lab, scale: Scale) -> Mapping[str, float]:
    """Measure `rules10`, and then `rules10_v2`, whose baselines reach a day further back."""
    plain = _measure(lab, scale, RULES_10)[UNIFORM_500K.name]
    values = _measure(lab, scale, RULES_10_V2, APART_MS + _DAY_MS)
    return {**values, "rules10": plain, "rules10_share": 100 * values[UNIFORM_500K.name] / plain}


_HOW = (
    "One Kafka transaction contains the load. The clock runs from its commit to the alert of the last marker "
    "transaction. The detector is warm (`warm_100k`) and idle."
)


def _rows(name: str, rules: tuple[Document, ...], target: float) -> Rows:
    figures = (
        Figure(UNIFORM_500K.name, "`uniform_500k`", "tx/s", at_least(target), promise=True),
        Figure(ZIPF_500K.name, "`zipf_500k`", "tx/s", promise=True),
        Figure("zipf_share", "`zipf_500k` in % of `uniform_500k`", "%", at_least(80)),
    )
    return Rows(f"backlog_{name}", f"Backlog, `{name}`", _HOW, figures, lambda lab, scale: _measure(lab, scale, rules))


ROWS = (
    _rows("rules1", RULES_1, 85_000),
    _rows("rules10", RULES_10, 70_000),
    Rows(
        "backlog_rules10_v2",
        "Backlog, `rules10_v2`: `when`, baselines and lists",
        "The same with `rules10_v2`, after `rules10` in the same run.",
        (
            Figure(UNIFORM_500K.name, "`uniform_500k`", "tx/s"),
            Figure(ZIPF_500K.name, "`zipf_500k`", "tx/s"),
            Figure("zipf_share", "`zipf_500k` in % of `uniform_500k`", "%", at_least(80)),
            Figure("rules10", "`rules10` in the same run, `uniform_500k`", "tx/s"),
            Figure("rules10_share", "`uniform_500k` in % of `rules10`", "%", at_least(70), promise=True),
        ),
        _measure_v2,
    ),
)

"""Throughput over a backlog.

A warm, idle detector sees the whole load at one instant: the commit of the Kafka transaction that contains the load.
The clock starts at this commit and stops at the append time of the last marker's alert. So the time excludes the start
and the write of the load. It includes everything from the first read to the transaction that contains the alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import yaml

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, WARM_100K, ZIPF_500K, Load, Made, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import RULES_1, RULES_10, RULES_10_V2, RULES_10_V3, Document, many
from bench.inputs.shapes import PLACES, SHAPES, LoadShape
from bench.lab import Lab, Session

APART_MS = 3_600_000
"""Event time between two loads: longer than any window plus the lateness, so that no window has two loads."""

_DAY_MS = 86_400_000
_WARM_PARTS = 5
_RULES, _GROUPINGS = 1_000, 10


class Backlogs:
    """The loads of a session: its detector evaluates `warm_100k` in several batches, and then the measured loads.

    `made` makes the records of a load.
    """

    def __init__(self, session: Session, scale: Scale, made: Callable[[Load], Iterator[Made]] = transactions) -> None:
        self._session, self._scale, self._made = session, scale, made
        self._backlog = Backlog(session.bootstrap, session.names.transactions)
        self._before, self.evaluated = WARM_100K.first(scale.of(WARM_100K.count)), 0
        warm = made(self._before)
        for _ in range(_WARM_PARTS):
            self.batches = range(self._evaluate(warm, self._before.count // _WARM_PARTS)[1])
        """The batches of the newest load."""

    def per_s(self, whole: Load, apart_ms: int = APART_MS) -> float:
        """Let the detector evaluate a load, and return its throughput."""
        load = whole.first(self._scale.of(whole.count)).after(self._before, apart_ms)
        started_ms, end = self._evaluate(self._made(load), load.count)
        self._before, self.batches = load, range(self.batches.stop, end)
        return throughput(self._session, load, started_ms)

    def _evaluate(self, made: Iterator[Made], count: int) -> tuple[int, int]:
        """Return the time of the commit, and the number after the last batch."""
        self._backlog.hold(islice(made, count))
        started_ms = self._backlog.release()
        self.evaluated += count
        return started_ms, self._session.await_evaluated(self.evaluated)["batchId"] + 1


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


def _measure(
    lab: Lab, scale: Scale, rules: tuple[Document, ...], apart_ms: int = APART_MS, shape: LoadShape | None = None
) -> dict[str, float]:
    with lab.session("backlog") as session:
        loads = _start(session, scale, rules, shape)
        values = {whole.name: loads.per_s(whole, apart_ms) for whole in (UNIFORM_500K, ZIPF_500K)}
        values["zipf_share"] = 100 * values[ZIPF_500K.name] / values[UNIFORM_500K.name]
        return values


def _start(session: Session, scale: Scale, rules: tuple[Document, ...], shape: LoadShape | None) -> Backlogs:
    """Start the detector of a session, with the schema of a shape, and evaluate the warm load."""
    if shape is None:
        session.start(rules)
        return Backlogs(session, scale)
    folder = session.files.with_suffix(".schema")
    folder.mkdir(parents=True)
    for name, content in shape.files.items():
        (folder / name).write_bytes(content)
    (folder / "schema.yaml").write_text(yaml.safe_dump(shape.schema()))
    session.start(rules, "--schema", str(folder / "schema.yaml"))
    return Backlogs(session, scale, lambda load: shape.of(transactions(load)))


def _beside_rules10(
    lab: Lab, scale: Scale, rules: tuple[Document, ...], reach_ms: int, shape: LoadShape | None = None
) -> Mapping[str, float]:
    """Measure `rules10`, and then rules with windows that reach further back."""
    plain = _measure(lab, scale, RULES_10)[UNIFORM_500K.name]
    values = _measure(lab, scale, rules, APART_MS + reach_ms, shape)
    return {**values, "rules10": plain, "rules10_share": 100 * values[UNIFORM_500K.name] / plain}


def _measure_formats(lab: Lab, scale: Scale) -> Mapping[str, float]:
    found = {shape.name: _of_shape(lab, scale, shape) for shape in SHAPES}
    return found | {f"{name}_share": 100 * value / found["flat"] for name, value in found.items() if name != "flat"}


def _of_shape(lab: Lab, scale: Scale, shape: LoadShape) -> float:
    with lab.session(f"format-{shape.name}") as session:
        return _start(session, scale, RULES_1, shape).per_s(UNIFORM_500K)


def _measure_many(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("many") as session:
        session.start(many(_RULES, _GROUPINGS))
        per_s = Backlogs(session, scale).per_s(UNIFORM_500K.first(200_000))
    return {"per_s": per_s, "evaluations_per_s": per_s * _RULES / 1e6}


_HOW = (
    "One Kafka transaction contains the load. The clock runs from its commit to the alert of the last marker "
    "transaction. The detector is warm (`warm_100k`) and idle."
)


def _rows(name: str, rules: tuple[Document, ...], target: float) -> Rows:
    figures = (
        Figure(UNIFORM_500K.name, "`uniform_500k`", "tx/s", at_least(target), promise=True),
        Figure(ZIPF_500K.name, "`zipf_500k`", "tx/s"),
        Figure("zipf_share", "`zipf_500k` in % of `uniform_500k`", "%", at_least(80)),
    )
    return Rows(f"backlog_{name}", f"Backlog, `{name}`", _HOW, figures, lambda lab, scale: _measure(lab, scale, rules))


def _figures_beside_rules10(target: float) -> tuple[Figure, ...]:
    return (
        Figure(UNIFORM_500K.name, "`uniform_500k`", "tx/s"),
        Figure(ZIPF_500K.name, "`zipf_500k`", "tx/s"),
        Figure("zipf_share", "`zipf_500k` in % of `uniform_500k`", "%", at_least(80)),
        Figure("rules10", "`rules10` in the same run, `uniform_500k`", "tx/s"),
        Figure("rules10_share", "`uniform_500k` in % of `rules10`", "%", at_least(target)),
    )


ROWS = (
    _rows("rules1", RULES_1, 85_000),
    _rows("rules10", RULES_10, 70_000),
    Rows(
        "backlog_rules10_v2",
        "Backlog, `rules10_v2`: `when`, baselines and lists",
        "The same with `rules10_v2`, after `rules10` in the same run.",
        _figures_beside_rules10(70),
        lambda lab, scale: _beside_rules10(lab, scale, RULES_10_V2, _DAY_MS),
    ),
    Rows(
        "backlog_rules10_v3",
        "Backlog, `rules10_v3`: expressions, conditions, signals, a calendar and 90 days",
        "The same with `rules10_v3`, whose transactions have places, after `rules10` in the same run.",
        _figures_beside_rules10(60),
        lambda lab, scale: _beside_rules10(lab, scale, RULES_10_V3, 2 * _DAY_MS, PLACES),
    ),
    Rows(
        "backlog_formats",
        "Backlog, `rules1`, other formats",
        "As above with `uniform_500k`, each format with a detector of its own. Nested: JSON of 2 KB with 30 members "
        "that the schema does not declare. Avro and Protobuf: the fields of flat JSON.",
        (
            Figure("flat", "flat JSON", "tx/s"),
            Figure("nested", "nested JSON", "tx/s"),
            Figure("avro", "Avro", "tx/s"),
            Figure("protobuf", "Protobuf", "tx/s"),
            Figure("nested_share", "nested JSON in % of flat JSON", "%", at_least(60)),
            Figure("avro_share", "Avro in % of flat JSON", "%", at_least(60)),
            Figure("protobuf_share", "Protobuf in % of flat JSON", "%", at_least(60)),
        ),
        _measure_formats,
    ),
    Rows(
        "many_rules",
        "Backlog, 1,000 rules sharing 10 groupings",
        "As above, over 200,000 transactions of `uniform_500k`. All eight aggregators and windows of 1 to 20 minutes "
        "take turns; every rule is evaluated for every transaction.",
        (
            Figure("per_s", "throughput", "tx/s", at_least(10_000), promise=True),
            Figure("evaluations_per_s", "rule evaluations", "million/s"),
        ),
        _measure_many,
    ),
)

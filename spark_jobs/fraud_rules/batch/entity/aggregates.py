"""Evaluates the rules for the payments of one entity with the engine of the detector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import triggering_value
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.grouping_state import AcceptResult
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import aggregate_of, baseline_value
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.rule import AggregateFunction, Operator, Rule
from fraud_rules.model.ruleset import Grouping, RuleInForce, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch, value_of

Ints = NDArray[np.int64]

__all__ = ["EntityAggregate", "OtherRule", "entity_aggregates", "rules_of_other_keys"]

_OUTCOMES: Final = {at.FIRED_NO: "none", at.FIRED_YES: "alert", at.FIRED_SUPPRESSED: "suppressed"}
_UPWARDS: Final = (Operator.GREATER, Operator.GREATER_EQUAL)
_BOUND_DECIMALS: Final = 6


class EntityAggregate(msgspec.Struct, frozen=True, rename="camel"):
    """A rule's aggregate at the last payment of a key that the rule evaluated.

    `says` is the rule in words. `value` is an exact decimal as text, in `unit` (empty for counts), and so is `bound`,
    with which the rule compares it. `bound` is the `limit` itself, or follows from the limit and the `baseline` as
    `limit_is` says: VALUE, FACTOR or DEVIATIONS. `bound` and `baseline` are None if the key has too few payments for a
    baseline. `share` is the value as a share of the bound, for rules that fire above a positive bound. `outcome` is
    alert, suppressed or none.
    """

    rule_id: int
    rule_version: int
    state: str
    name: str
    says: str
    key: dict[str, Any]
    value: str
    unit: str
    window_count: int
    window_ms: int
    window_complete: bool
    event_time: int
    transaction_id: int | str
    operator: str
    limit: str
    limit_is: str
    baseline: str | None
    bound: str | None
    share: float | None
    outcome: str
    warm_up: bool


class OtherRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule whose key lacks the field, so that its aggregate needs the payments of others."""

    rule_id: int
    name: str
    fields: list[str]


def entity_aggregates(
    batch: TransactionBatch,
    field: str,
    timeline: RuleTimeline,
    schema: TransactionSchema,
    settings: DetectorSettings,
    known_from_ms: int,
    most: int | None = None,
) -> list[EntityAggregate]:
    """Evaluate the payments of one value of `field`, and return the last evaluation of each rule in force and key: the
    `most` with the largest shares.

    `batch` has all payments of the entity that were appended at `known_from_ms` or later. The evaluation is that of a
    detector that starts at this time.
    """
    if not len(batch):
        return []
    rules = timeline.latest.rules
    declared = {each.name: each for each in schema.fields}
    last: dict[tuple[int, tuple[object, ...]], _Evaluation] = {}

    def observe(rows: TransactionBatch, fields: Grouping, plan: GroupingPlan, result: AcceptResult) -> None:
        if field not in fields or not len(result.output):
            return
        columns = [(rows.columns[name], declared[name]) for name in fields]
        for row in _last_rows(rows, fields, result.output):
            in_force = plan.in_force[row[at.O_RULE]]
            current = rules.get(in_force.rule.rule_id)
            if current is None or not current.rule.evaluated:
                continue
            if not row[at.O_VALUES] and not aggregate_of(in_force.rule).has_value_of_empty_window:
                continue
            key = tuple(value_of(column, row[at.O_ROW], each) for column, each in columns)
            last[in_force.rule.rule_id, key] = _evaluation(rows, fields, in_force, row, schema)

    one = replace(settings, key_groups=1, evaluations=True)
    engine = KeyGroupEngine(
        0, schema, one, MemoryStateLog(), HeapViews(), observer=observe, known_from_ms=known_from_ms
    )
    for blob in fan_out(batch, timeline, 1).values():
        engine.process([blob], timeline, 0, 0)
    found = sorted(last.values(), key=lambda each: (-(each.share or 0.0), each.in_force.rule.rule_id))
    return [_aggregate(each, schema) for each in found[:most]]


def rules_of_other_keys(timeline: RuleTimeline, field: str) -> list[OtherRule]:
    """The rules in force whose key lacks the field, by id."""
    return [
        OtherRule(each.rule.rule_id, _name(each), list(each.rule.grouping))
        for _, each in sorted(timeline.latest.rules.items())
        if field not in each.rule.grouping and each.rule.evaluated
    ]


def _last_rows(rows: TransactionBatch, fields: Grouping, output: Ints) -> list[list[int]]:
    """The last output row of each rule and key, in the order of the output."""
    keys, key_of_row = np.unique(
        np.stack([rows.columns[name].values for name in fields], axis=1), axis=0, return_inverse=True
    )
    codes = output[:, at.O_RULE] * len(keys) + key_of_row.reshape(-1)[output[:, at.O_ROW]]
    last = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(last, codes, np.arange(len(output), dtype=np.int64))
    picked: list[list[int]] = output[np.sort(last[last >= 0])].tolist()
    return picked


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """An output row of the kernel for one rule and key, with the values that are compared."""

    in_force: RuleInForce
    fields: Grouping
    rows: TransactionBatch
    output: list[int]
    value: str
    baseline: str | None
    bound: Decimal | None
    share: float | None


def _evaluation(
    rows: TransactionBatch, fields: Grouping, in_force: RuleInForce, output: list[int], schema: TransactionSchema
) -> _Evaluation:
    rule = in_force.rule
    value = triggering_value(in_force, output, schema)
    baseline, bound = _compared(rule, output, schema)
    return _Evaluation(in_force, fields, rows, output, value, baseline, bound, _share(rule, value, bound))


def _aggregate(found: _Evaluation, schema: TransactionSchema) -> EntityAggregate:
    rule, row = found.in_force.rule, found.output
    payment: Mapping[str, Any] = found.rows.row(row[at.O_ROW], schema)
    return EntityAggregate(
        rule_id=rule.rule_id,
        rule_version=found.in_force.version,
        state=rule.state.value,
        name=_name(found.in_force),
        says=rule_sentence(rule, schema),
        key={name: payment[name] for name in found.fields},
        value=found.value,
        unit=_unit(rule, schema),
        window_count=row[at.O_COUNT],
        window_ms=rule.window_ms,
        window_complete=bool(row[at.O_COMPLETE]),
        event_time=payment[TIME_FIELD],
        transaction_id=payment[ID_FIELD],
        operator=rule.operator.value,
        limit=format(rule.limit, "f"),
        limit_is=_limit_is(rule),
        baseline=found.baseline,
        bound=None if found.bound is None else _plain(found.bound),
        share=found.share,
        outcome=_OUTCOMES[row[at.O_FIRED]],
        warm_up=rule.warm_up,
    )


def _unit(rule: Rule, schema: TransactionSchema) -> str:
    field = None if rule.aggregate_field is None else schema.field(rule.aggregate_field)
    return "" if field is None else field.display.unit


def _compared(rule: Rule, row: list[int], schema: TransactionSchema) -> tuple[str | None, Decimal | None]:
    """The value of the baseline, and the bound with which the rule compares its aggregate."""
    baseline = rule.baseline
    if baseline is None:
        return None, rule.limit
    has_value = row[at.O_BASE_VALUES] > 0 or baseline.aggregate_function is AggregateFunction.COUNT
    if row[at.O_BASE_COUNT] < baseline.min_count or not has_value:
        return None, None
    declared = None if baseline.aggregate_field is None else schema.field(baseline.aggregate_field)
    scale = 0 if declared is None else declared.scale
    value = baseline_value(rule, row, scale)
    if not baseline.deviations:
        return value, rule.limit * Decimal(value)
    distance = Decimal(0) if baseline.aggregates_ones else rule.limit * _deviation(row, scale)
    return value, Decimal(value) + (distance if rule.operator in _UPWARDS else -distance)


def _deviation(row: list[int], scale: int) -> Decimal:
    """The standard deviation (population) of the values in the baseline."""
    count, total = row[at.O_BASE_VALUES], (row[at.O_BASE_HIGH] << 32) + row[at.O_BASE_LOW]
    squares = sum(row[at.O_SQUARE + limb] << (32 * limb) for limb in range(4))
    spread = max(0, count * squares - total * total)
    return Decimal(spread).sqrt().scaleb(-scale) / count


def _limit_is(rule: Rule) -> str:
    if rule.baseline is None:
        return "VALUE"
    return "DEVIATIONS" if rule.baseline.deviations else "FACTOR"


def _share(rule: Rule, value: str, bound: Decimal | None) -> float | None:
    if bound is None or bound <= 0 or rule.operator not in _UPWARDS:
        return None
    return round(float(value) / float(bound), 4)


def _plain(number: Decimal) -> str:
    """The number with at most six decimals, without trailing zeros."""
    text = format(round(number, _BOUND_DECIMALS), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _name(in_force: RuleInForce) -> str:
    name = in_force.rule.document.get("name")
    return name if isinstance(name, str) else ""

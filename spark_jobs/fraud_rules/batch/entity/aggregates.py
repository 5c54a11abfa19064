"""Evaluates the rules for the payments of one entity with the engine of the detector."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fraud_rules.batch.entity.evaluations import LastEvaluation, last_evaluations
from fraud_rules.batch.entity.ranking import SHARE_DECIMALS, UPWARDS, with_largest_shares
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import triggering_value
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import baseline_value
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleInForce, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

Outcome: TypeAlias = Literal["none", "alert", "suppressed", "signal"]

_OUTCOMES: Final[Mapping[int, Outcome]] = {
    at.FIRED_NO: "none",
    at.FIRED_YES: "alert",
    at.FIRED_SUPPRESSED: "suppressed",
    at.FIRED_SIGNAL: "signal",
}
_BOUND_DECIMALS: Final = 6


class EntityAggregate(msgspec.Struct, frozen=True, rename="camel"):
    """A rule's aggregate at the last payment of a key that the rule evaluated.

    `says` is the rule in words. `value` is an exact decimal as text, in `unit` (empty for counts), and so is `bound`,
    with which the rule compares it. `bound` is the value of the `limit`, which may be an expression, or follows from
    the limit and the `baseline` as `limit_is` says: VALUE, FACTOR or DEVIATIONS. `bound` and `baseline` are None if the
    key has too few payments for a baseline; `bound` also if the limit is null. `window_calendar` is a calendar window
    in words, empty for a window of `window_ms`. From `window_over_ms` on, windows do not contain the payment. `share`
    is the value as a share of the bound, for rules that fire above a positive bound. `outcome` is alert, suppressed,
    signal or none.
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
    window_calendar: str
    window_over_ms: int
    window_complete: bool
    event_time: int
    transaction_id: int | str
    operator: str
    limit: str
    limit_is: Literal["VALUE", "FACTOR", "DEVIATIONS"]
    baseline: str | None
    bound: str | None
    share: float | None
    outcome: Outcome
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
    found = last_evaluations(batch, field, timeline, schema, settings, known_from_ms)
    return [_aggregate(each, schema) for each in with_largest_shares(found, schema, most)]


def rules_of_other_keys(timeline: RuleTimeline, field: str) -> list[OtherRule]:
    """The rules in force whose key lacks the field, by id."""
    return [
        OtherRule(each.rule.rule_id, _name(each), list(each.rule.grouping))
        for _, each in sorted(timeline.latest.rules.items())
        if field not in each.rule.grouping and each.rule.evaluated
    ]


def _aggregate(found: LastEvaluation, schema: TransactionSchema) -> EntityAggregate:
    rule, row = found.in_force.rule, found.output
    payment: Mapping[str, Any] = found.payment(schema)
    value = triggering_value(found.in_force.rule, row, schema)
    baseline, bound = _compared(rule, found.limit, row, schema)
    return EntityAggregate(
        rule_id=rule.rule_id,
        rule_version=found.in_force.version,
        state=rule.state.value,
        name=_name(found.in_force),
        says=rule_sentence(rule, schema),
        key={name: payment[name] for name in found.fields},
        value=value,
        unit=_unit(rule, schema),
        window_count=row[at.O_COUNT],
        window_ms=rule.window.reach_ms,
        window_calendar=rule.window.calendar_text,
        window_over_ms=rule.window.over_ms(payment[TIME_FIELD]),
        window_complete=bool(row[at.O_COMPLETE]),
        event_time=payment[TIME_FIELD],
        transaction_id=payment[ID_FIELD],
        operator=rule.operator.value,
        limit=rule.limit_text,
        limit_is=_limit_is(rule),
        baseline=baseline,
        bound=None if bound is None else _plain(bound),
        share=_share(rule, value, bound),
        outcome=_OUTCOMES[row[at.O_FIRED]],
        warm_up=rule.warm_up,
    )


def _unit(rule: Rule, schema: TransactionSchema) -> str:
    field = None if rule.aggregate_field is None else schema.field(rule.aggregate_field)
    return "" if field is None else field.display.unit


def _compared(
    rule: Rule, limit: Decimal | None, row: list[int], schema: TransactionSchema
) -> tuple[str | None, Decimal | None]:
    """The value of the baseline, and the bound with which the rule compares its aggregate, from its limit."""
    baseline = rule.baseline
    if baseline is None or limit is None:
        return None, limit
    has_value = row[at.O_BASE_VALUES] > 0 or baseline.aggregate_function is AggregateFunction.COUNT
    if row[at.O_BASE_COUNT] < baseline.min_count or not has_value:
        return None, None
    scale = schema.scale_of(baseline.aggregate_field)
    value = baseline_value(rule, row, scale)
    if not baseline.deviations:
        return value, limit * Decimal(value)
    distance = Decimal(0) if baseline.aggregates_ones else limit * _deviation(row, scale)
    return value, Decimal(value) + (distance if rule.operator in UPWARDS else -distance)


def _deviation(row: list[int], scale: int) -> Decimal:
    """The standard deviation (population) of the values in the baseline."""
    count, total = row[at.O_BASE_VALUES], (row[at.O_BASE_HIGH] << 32) + row[at.O_BASE_LOW]
    squares = sum(row[at.O_SQUARE + limb] << (32 * limb) for limb in range(4))
    spread = max(0, count * squares - total * total)
    return Decimal(spread).sqrt().scaleb(-scale) / count


def _limit_is(rule: Rule) -> Literal["VALUE", "FACTOR", "DEVIATIONS"]:
    if rule.baseline is None:
        return "VALUE"
    return "DEVIATIONS" if rule.baseline.deviations else "FACTOR"


def _share(rule: Rule, value: str, bound: Decimal | None) -> float | None:
    if bound is None or bound <= 0 or rule.operator not in UPWARDS:
        return None
    return round(float(value) / float(bound), SHARE_DECIMALS)


def _plain(number: Decimal) -> str:
    """The number with at most six decimals, without trailing zeros."""
    text = format(round(number, _BOUND_DECIMALS), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _name(in_force: RuleInForce) -> str:
    name = in_force.rule.document.get("name")
    return name if isinstance(name, str) else ""

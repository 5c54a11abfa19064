"""Sample rules: the Flink demo's rule as a record of the rule log, a count and a sum over the payments of a payee."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Operator, Rule, RuleState
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.window import Window
from tests.support.places import ROOT

SCHEMA = TransactionSchema.load(ROOT / "config" / "schema.yaml")
LIMITS = RuleLimits()
DEMO_RULE: dict[str, Any] = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId", "beneficiaryId"],
    "unique": [],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": "GREATER",
    "limit": 20,
    "windowMinutes": 20,
}
LEFT_OUT = object()


def record(**changes: Any) -> bytes:
    """The demo's rule with some members changed or omitted."""
    members = {**DEMO_RULE, **changes}
    return json.dumps({name: value for name, value in members.items() if value is not LEFT_OUT}).encode()


def count_rule(rule_id: int = 1, **members: Any) -> dict[str, Any]:
    """An active rule that counts the payments of a payee. Its limit and its window are among the further members."""
    return {
        "ruleId": rule_id, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=", **members,
    }  # fmt: skip


def sum_rule(rule_id: int = 1, **members: Any) -> dict[str, Any]:
    """An active rule that adds up the amounts of a payee. Its limit and its window are among the further members."""
    return count_rule(
        rule_id,
        **{"aggregateFieldName": "paymentAmount", "aggregatorFunctionType": "SUM", "limitOperatorType": ">", **members},
    )


def counting(
    rule_id: int,
    grouping: tuple[str, ...] = ("payeeId",),
    minutes: int = 20,
    state: RuleState = RuleState.ACTIVE,
    **members: Any,
) -> Rule:
    """A valid rule that counts the payments of a key in so many minutes, more than one of them."""
    window = Window(minutes * 60_000)
    plain = Rule(rule_id, state, grouping, AggregateFunction.COUNT, None, (), Operator.GREATER, Decimal(1), window)
    return replace(plain, **members)


def rule_log(
    records: Iterable[Mapping[str, Any]],
    append_ms: int | Sequence[int] = 1,
    schema: TransactionSchema = SCHEMA,
    limits: RuleLimits = LIMITS,
) -> RuleTimeline:
    """A rule log of valid records. `append_ms` is the append time of all of them, or of each."""
    documents = list(records)
    times_ms = [append_ms] * len(documents) if isinstance(append_ms, int) else append_ms
    entries = [
        read_entry(version, at_ms, json.dumps(each).encode(), schema, limits)
        for version, (at_ms, each) in enumerate(zip(times_ms, documents, strict=True))
    ]
    assert all(entry.change for entry in entries), [entry.reasons for entry in entries]
    return RuleTimeline(entries)

"""Rules over the payments of a payee, one for each given aggregator."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.ruleset import GroupingInForce, RuleTimeline
from fraud_rules.model.schema import TransactionSchema


def payee_rules(
    aggregators: Sequence[str], schema: TransactionSchema, members: Callable[[int, str], dict[str, Any]]
) -> GroupingInForce:
    """The grouping of valid rules with ids from 1. `members` gives a rule's further members, by id and aggregator."""
    records = [
        {
            "ruleId": number,
            "ruleState": "ACTIVE",
            "groupingKeyNames": ["payeeId"],
            "aggregateFieldName": "paymentAmount",
            "aggregatorFunctionType": aggregator,
            "unique": ["beneficiaryId"] if aggregator == "COUNT_DISTINCT" else [],
            "limitOperatorType": ">=",
            **members(number, aggregator),
        }
        for number, aggregator in enumerate(aggregators, start=1)
    ]
    limits = DetectorSettings().limits
    entries = [read_entry(i, 1, json.dumps(record).encode(), schema, limits) for i, record in enumerate(records)]
    assert all(entry.change is not None for entry in entries)
    return RuleTimeline(entries).latest.groupings["payeeId",]

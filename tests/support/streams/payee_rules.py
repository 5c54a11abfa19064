"""Rules over the payments of a payee, one for each given aggregator, and long streams of such payments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fraud_rules.model.ruleset import GroupingInForce
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import rule_log

STREAM_START_MS = 1_700_000_000_000


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
    return rule_log(records, schema=schema).latest.groupings["payeeId",]


def payee_rows(n: int, keys: int, delay_ms: int, seed: int) -> TransactionBatch:
    """So many payments of the default schema, one each 10 ms, from so many payees. Half of them are out of order, by up
    to `delay_ms`. Many share their event time."""
    random = np.random.default_rng(seed)
    arrival = STREAM_START_MS + np.arange(n) * 10
    late = random.random(n) < 0.5
    whole = {
        "transactionId": np.arange(n),
        "eventTime": (arrival - np.where(late, random.integers(0, delay_ms, n), 0)) // 50 * 50,
        "payeeId": random.integers(0, keys, n),
        "beneficiaryId": random.integers(0, 50, n),
        "paymentAmount": random.integers(-(10**17), 10**17, n),
        "ingestionTimestamp": arrival,
    }
    columns = {name: Column(values.astype(np.int64), None, None) for name, values in whole.items()}
    columns["paymentType"] = Column(random.integers(0, 2, n), None, ("CSH", "CRD"))
    return TransactionBatch(arrival, np.zeros(n, dtype=np.int32), np.arange(n), columns)

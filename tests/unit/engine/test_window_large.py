"""The kernel with thousands of rows per key, which the oracle's streams never reach, against a plain computation.

The test compares every evaluation of all aggregators over one key or a few, out of order. The thresholds of the
grouping state make it trim, grow and move key rows many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import layout as at
from fraud_rules.model.ruleset import GroupingInForce
from fraud_rules.model.transaction import TransactionBatch
from tests.support.rules import SCHEMA
from tests.support.streams.payee_rules import payee_rows, payee_rules

OUT_OF_ORDER_MS = 5_000
AGGREGATORS = ("SUM", "COUNT", "MIN", "MAX", "AVG", "STDDEV", "COUNT_DISTINCT")


def rules_of_all_kinds(window_seconds: int) -> GroupingInForce:
    def members(number: int, aggregator: str) -> dict[str, Any]:
        filtered = {"filter": "paymentType = 'CSH'"} if number % 2 else {}
        return {"limit": 0, "windowSeconds": window_seconds, **filtered}

    return payee_rules(AGGREGATORS, SCHEMA, members)


def plain_values(batch: TransactionBatch, i: int, window_ms: int, aggregator: str, filtered: bool) -> Iterator[object]:
    """What the aggregate is, read off the columns; nothing where the rule does not look at row i."""
    times, keys = batch.columns["eventTime"].values[: i + 1], batch.columns["payeeId"].values[: i + 1]
    passes = batch.columns["paymentType"].values[: i + 1] == 0 if filtered else np.ones(i + 1, dtype=bool)
    if not passes[i]:
        return
    inside = passes & (keys == keys[i]) & (times >= times[i] - window_ms) & (times <= times[i])
    amounts = batch.columns["paymentAmount"].values[: i + 1][inside].tolist()
    n, total = len(amounts), sum(amounts)
    yield n
    match aggregator:
        case "SUM":
            yield total
        case "COUNT":
            yield n
        case "MIN":
            yield min(amounts)
        case "MAX":
            yield max(amounts)
        case "AVG":
            yield Fraction(total, n)
        case "STDDEV":
            yield n * sum(amount * amount for amount in amounts) - total * total
        case "COUNT_DISTINCT":
            yield len(set(batch.columns["beneficiaryId"].values[: i + 1][inside].tolist()))


def kernel_values(row: list[int], aggregator: str) -> list[object]:
    total, n = (row[at.O_HIGH] << 32) + row[at.O_LOW], row[at.O_VALUES]
    value: object = total
    if aggregator == "AVG":
        value = Fraction(total, n)
    elif aggregator == "STDDEV":
        value = n * sum(row[at.O_SQUARE + k] << (32 * k) for k in range(4)) - total * total
    return [row[at.O_COUNT], value]


@pytest.mark.parametrize(
    ("n", "keys", "window_s", "seed"), [(24_000, 1, 60, 1), (9_000, 3, 20, 2), (6_000, 200, 10, 3)]
)
def test_every_evaluation_is_exact(n: int, keys: int, window_s: int, seed: int) -> None:
    grouping, batch = rules_of_all_kinds(window_s), payee_rows(n, keys, OUT_OF_ORDER_MS, seed)
    state = GroupingState.create(SCHEMA, ("payeeId",), HeapArrays())
    compared = 0
    for start in range(0, n, 500):
        part = batch.take(np.arange(start, min(start + 500, n)))
        plan = state.plan([grouping])
        result = state.accept(part, np.zeros(len(part), dtype=np.int64), plan, OUT_OF_ORDER_MS, explain=True)
        assert set(result.outcomes.tolist()) == {at.ROW_ACCEPTED}
        for row in result.output[:: 37 if keys == 1 else 11].tolist():
            i, rule = start + row[at.O_ROW], plan.in_force[row[at.O_RULE]].rule
            wanted = list(
                plain_values(batch, i, rule.window.reach_ms, rule.aggregate_function, rule.filter is not None)
            )
            assert kernel_values(row, rule.aggregate_function) == wanted, (i, rule.aggregate_function)
            compared += 1
    assert compared > n // 20
    assert state.retained_rows < n

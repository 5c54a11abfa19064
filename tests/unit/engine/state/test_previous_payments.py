"""The search of previous payments, against a search of one row after the other, on streams of many calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import displaced
from fraud_rules.engine.window import layout as at
from fraud_rules.model.rule import PreviousRows
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import SCHEMA
from tests.support.streams.payee_rules import payee_rows, payee_rules

CASH = "paymentType = 'CSH'"
WINDOWS_S = (20, 3, 20)
FILTERS = (None, CASH, CASH)
WHEN = "coalesce(previous(paymentType), 'CSH') != 'x' and coalesce(previous(paymentAmount), 0) >= 0"


def stream(n: int, keys: int, delay_ms: int) -> TransactionBatch:
    """Payments with small amounts, few of them in cash. Some share their id."""
    random, rows = np.random.default_rng(n + keys), payee_rows(n, keys, delay_ms, n + keys)
    ids, amounts = np.arange(n) - 7 * (random.random(n) < 0.05), random.integers(0, 1_000, n)
    types = Column(random.integers(0, 9, n).clip(0, 1), None, ("CSH", "CRD"))
    changed = {"transactionId": Column(ids, None, None), "paymentAmount": Column(amounts, None, None)}
    return replace(rows, columns={**rows.columns, **changed, "paymentType": types})


def previous_by_hand(rows: TransactionBatch, out_of_order_ms: int) -> list[list[int | None]]:
    """For each rule, the amount of the previous payment of each row that is evaluated; None without one, or for another
    row."""
    values = {name: column.values.tolist() for name, column in rows.columns.items()}
    accepted: dict[int, list[int]] = {}
    seen: dict[tuple[int, int], int] = {}
    found: list[list[int | None]] = [[] for _ in WINDOWS_S]
    watermark = bound = 0
    for i, (time, key) in enumerate(zip(values["eventTime"], values["payeeId"], strict=True)):
        for amounts in found:
            amounts.append(None)
        identity = key, values["transactionId"][i]
        if seen.get(identity, -1) >= bound:
            continue
        if time >= watermark:
            for rule, (window_s, only) in enumerate(zip(WINDOWS_S, FILTERS, strict=True)):
                opens = max(bound, time - window_s * 1_000)
                rivals = [j for j in accepted.get(key, ()) if opens <= values["eventTime"][j] <= time]
                rivals = [j for j in rivals if only is None or values["paymentType"][j] == 0]
                if rivals:
                    last = max(rivals, key=lambda j: (values["eventTime"][j], j))
                    found[rule][i] = values["paymentAmount"][last]
        if time >= watermark or time >= bound:
            accepted.setdefault(key, []).append(i)
            seen[identity] = time
        watermark = max(watermark, min(time, int(rows.append_ms[i])) - out_of_order_ms)
        bound = max(bound, watermark - max(WINDOWS_S) * 1_000)
        if i % 100 == 0:
            accepted = {k: [j for j in of_key if values["eventTime"][j] >= bound] for k, of_key in accepted.items()}
    return found


@pytest.mark.parametrize(
    ("n", "keys", "delay_ms", "out_of_order_ms", "batch", "far"),
    [
        # A long test: the payments of one key that are far out of order need more of the search.
        pytest.param(3_000, 1, 3_000, 10_000, 3_000, displaced.FAR, marks=pytest.mark.long),
        (1_500, 1, 20_000, 20_000, 1_200, 1),
        (2_000, 3, 30_000, 5_000, 997, 40),
        (3_000, 500, 30_000, 10_000, 2_000, 2),
    ],
    ids=["one key", "far out of order", "late", "many keys"],
)
def test_the_search_finds_the_rows_of_a_search_one_by_one(
    n: int, keys: int, delay_ms: int, out_of_order_ms: int, batch: int, far: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(displaced, "FAR", far)

    def members(number: int, _: str) -> dict[str, Any]:
        only = {} if FILTERS[number - 1] is None else {"filter": FILTERS[number - 1]}
        return {"limit": 0, "windowSeconds": WINDOWS_S[number - 1], "when": WHEN, **only}

    grouping, rows = payee_rules(("COUNT", "SUM", "COUNT"), SCHEMA, members), stream(n, keys, delay_ms)
    state = GroupingState.create(SCHEMA, ("payeeId",), HeapArrays())
    found: list[list[int | None]] = [[] for _ in WINDOWS_S]
    outcomes: set[int] = set()
    for start in range(0, n, batch):
        part = rows.take(np.arange(start, min(start + batch, n)))
        plan = state.plan([grouping])
        result = state.accept(part, np.zeros(len(part), dtype=np.int64), plan, out_of_order_ms, explain=True)
        outcomes |= set(result.outcomes.tolist())
        evaluated = result.outcomes == at.ROW_ACCEPTED
        for rule, each in enumerate(plan.in_force):
            passed = result.passes[:, plan.rules.rows[rule, at.R_WHEN]] != 0
            assert (passed == evaluated).all()
            amounts = result.previous[PreviousRows(each.rule.filter, each.rule.window)]["paymentAmount"]
            assert each.rule.rule_id == rule + 1 and amounts.valid is not None
            pairs = zip(amounts.values.tolist(), amounts.valid.tolist(), strict=True)
            found[rule] += [value if valid else None for value, valid in pairs]
    assert found == previous_by_hand(rows, out_of_order_ms)
    assert at.ROW_ACCEPTED in outcomes
    assert at.ROW_CONFLICTING_DUPLICATE in outcomes or keys > 3

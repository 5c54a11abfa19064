"""Rows far out of order, which a batch keeps in displaced runs until it merges them: the results stay the same.

The tests lower the distance from which a row is displaced, so that short streams use the runs too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state import grouping_state
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import displaced
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import KIND_STDDEV
from fraud_rules.model.ruleset import GroupingInForce
from fraud_rules.replay.replay import replay
from tests.support import oracle
from tests.support.conformance import Case, differences, failing_cases, load_schema, same_answer
from tests.support.rules import SCHEMA
from tests.support.streams.features import previous_documents
from tests.support.streams.generated import documents
from tests.support.streams.long import long_document
from tests.support.streams.payee_rules import payee_rows, payee_rules
from tests.support.streams.runs import STREAMS, check_long, check_stream, described, stream_seeds

NULLABLE = load_schema("nullable")
SETTINGS = DetectorSettings()
NEVER = 1 << 60
SQUARES = slice(at.O_SQUARE, at.O_SQUARE + 4)
"""The columns of the output that only STDDEV sets."""
BASELINE = slice(at.O_BASE_COUNT, at.O_BASE_LOW + 1)
"""The columns of the output that only rules with a baseline set."""
AGGREGATORS = ("SUM", "COUNT", "MIN", "MAX", "AVG", "STDDEV", "COUNT_DISTINCT", "COUNT_WITH_RESET")


@pytest.fixture
def displace_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that is not the newest of its key enters the run."""
    monkeypatch.setattr(displaced, "FAR", 1)


@pytest.mark.usefixtures("displace_all")
def test_engine_answers_every_case() -> None:
    def faults_of(case: Case) -> list[str]:
        return differences(case.expect, replay(case.document, load_schema(case.schema), SETTINGS))

    assert failing_cases(faults_of) == {}


def _assert_same(document: Mapping[str, Any]) -> None:
    found = same_answer(oracle.evaluate(document, NULLABLE), replay(document, NULLABLE, SETTINGS))
    assert not found, described(found, document)


@pytest.mark.usefixtures("displace_all")
@stream_seeds(STREAMS // 5)
def test_engine_agrees_with_the_oracle(stream_seed: int) -> None:
    check_stream(stream_seed, documents(), _assert_same)


@pytest.mark.usefixtures("displace_all")
@stream_seeds(STREAMS // 10)
def test_engine_agrees_with_the_oracle_about_previous_payments_of_earlier_calls(
    stream_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping_state, "_ROWS_PER_CALL", 2)
    check_stream(stream_seed, previous_documents(), _assert_same)


@pytest.mark.usefixtures("displace_all")
@stream_seeds(STREAMS // 40)
def test_engine_agrees_with_the_oracle_for_long(stream_seed: int) -> None:
    check_long(long_document(stream_seed, transactions=100 + 200 * (stream_seed % 4)), _assert_same)


def rules_that_alert(window_seconds: int) -> GroupingInForce:
    """Two rules for each aggregator, one with a filter; most conditions hold now and then."""
    limits = {"SUM": 10**9, "COUNT": 900, "COUNT_DISTINCT": 48, "COUNT_WITH_RESET": 300, "STDDEV": 5 * 10**9}

    def members(number: int, aggregator: str) -> dict[str, Any]:
        filtered = {"filter": "paymentType = 'CSH'", "cooldownSeconds": 3} if number > len(AGGREGATORS) else {}
        seconds = window_seconds * (1 + number % 2)
        return {"limit": limits.get(aggregator, 0), "windowSeconds": seconds, **filtered}

    return payee_rules((*AGGREGATORS, *AGGREGATORS), SCHEMA, members)


@pytest.mark.parametrize(
    ("n", "keys", "delay_ms", "out_of_order_ms", "batch", "far"),
    [
        (8_000, 1, 60_000, 5_000, 1_000, displaced.FAR),
        # A long test: three keys are out of order as much, and none of their rows is late.
        pytest.param(20_000, 1, 60_000, 120_000, 5_000, displaced.FAR, marks=pytest.mark.long),
        (5_000, 1, 30_000, 10_000, 997, 1),
        (5_000, 3, 30_000, 60_000, 1_500, 40),
        (6_000, 200, 30_000, 10_000, 2_000, 2),
    ],
    ids=["late", "out of order", "far 1", "three keys", "more keys than runs"],
)
def test_displaced_rows_change_no_evaluation(
    n: int, keys: int, delay_ms: int, out_of_order_ms: int, batch: int, far: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouping, rows = rules_that_alert(20), payee_rows(n, keys, delay_ms, seed=n + keys + far)

    def answers(distance: int) -> tuple[list[Any], set[int], list[Any]]:
        monkeypatch.setattr(displaced, "FAR", distance)
        state = GroupingState.create(SCHEMA, ("payeeId",), HeapArrays())
        output, outcomes = [], []
        for start in range(0, n, batch):
            part = rows.take(np.arange(start, min(start + batch, n)))
            plan = state.plan([grouping])
            result = state.accept(part, np.zeros(len(part), dtype=np.int64), plan, out_of_order_ms, explain=True)
            result.output[plan.rules.rows[result.output[:, at.O_RULE], at.R_KIND] != KIND_STDDEV, SQUARES] = 0
            result.output[:, BASELINE] = 0
            output.append(result.output.tolist())
            outcomes.extend(result.outcomes.tolist())
        return output, set(outcomes), sorted(state.marks().rows.tolist())

    in_turn, outcomes, marks = answers(NEVER)
    assert answers(far) == (in_turn, outcomes, marks)
    fired = {(row[at.O_RULE], row[at.O_FIRED]) for rows_of in in_turn for row in rows_of}
    assert len(fired) > 2 * len(AGGREGATORS)
    assert out_of_order_ms > delay_ms or at.ROW_LATE_KEPT in outcomes

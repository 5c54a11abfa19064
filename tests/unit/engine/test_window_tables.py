"""The hash tables of a grouping state spread rows whose numbers grow together.

The tests count how many places a search visits, because a count does not depend on the machine.
"""

from __future__ import annotations

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import hash_tables
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import StateArrays
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import SCHEMA, count_rule, rule_log

START_MS = 1_700_000_000_000
VISITS = 2.0
"""More than the expected visits of a search in a table that is half full: 1.5."""


def state_after(ids: np.ndarray, payees: np.ndarray, rules: int) -> StateArrays:
    """The arrays of a state after one payment for each id, under rules that alert on every payment."""
    grouping = rule_log(count_rule(1 + i, limit=1, windowMinutes=60) for i in range(rules)).latest.groupings["payeeId",]
    n = len(ids)
    zeros, times = np.zeros(n, dtype=np.int64), np.full(n, START_MS)
    whole = {
        "transactionId": ids,
        "eventTime": times,
        "payeeId": payees,
        "beneficiaryId": zeros,
        "paymentAmount": zeros,
        "ingestionTimestamp": times,
    }
    columns = {name: Column(values.astype(np.int64), None, None) for name, values in whole.items()}
    columns["paymentType"] = Column(zeros, None, ("CSH",))
    batch = TransactionBatch(times, zeros.astype(np.int32), np.arange(n), columns)
    state = GroupingState.create(SCHEMA, ("payeeId",), HeapArrays())
    plan = state.plan([grouping])
    state.accept(batch, zeros, plan, 0, explain=False)
    return state._view.state


def mean_visits(table: np.ndarray, starts: np.ndarray) -> float:
    """How many places a search for an entry visits. `starts` has the first place for each entry."""
    places = np.empty(len(starts), dtype=np.int64)
    used = np.flatnonzero(table)
    places[table[used] - 1] = used
    return float(np.mean((places - starts) % len(table) + 1))


@pytest.mark.parametrize(
    ("first_id", "step"), [(0, 1), (1, 1), (1 << 40, 1), (0, 2), (0, 1 << 20), (-5_000, 1)], ids=str
)
def test_ids_that_grow_like_the_keys_do_not_collide(first_id: int, step: int) -> None:
    n = 5_000
    ids = first_id + step * np.arange(n)
    state = state_after(ids, np.arange(n), 1)
    assert state.header[at.H_EVENTS] == n
    starts = np.array([hash_tables.id_place(state, i, int(ids[i])) for i in range(n)], dtype=np.int64)
    assert mean_visits(state.id_table, starts) < VISITS


def test_ids_of_one_key_do_not_collide() -> None:
    n = 5_000
    state = state_after(np.arange(n), np.zeros(n), 1)
    starts = np.array([hash_tables.id_place(state, 0, i) for i in range(n)], dtype=np.int64)
    assert mean_visits(state.id_table, starts) < VISITS


def test_marks_of_many_rules_and_keys_do_not_collide() -> None:
    rules, keys = 64, 64
    state = state_after(np.arange(keys), np.arange(keys), rules)
    marks = state.marks[: state.header[at.H_MARKS]]
    assert len(marks) == rules * keys
    starts = np.array(
        [hash_tables.mark_place(state, int(mark[at.M_RULE]), int(mark[at.M_SLOT])) for mark in marks], dtype=np.int64
    )
    assert mean_visits(state.mark_table, starts) < VISITS

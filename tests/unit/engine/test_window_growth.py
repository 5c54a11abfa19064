"""How the arrays of a grouping state grow: in small steps, at most once per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import SCHEMA, rule_log, sum_rule

START_MS = 1_700_000_000_000


def _state(grouping: Sequence[str], members: Mapping[str, object]) -> tuple[GroupingState, GroupingPlan]:
    """An empty grouping state, and the plan of one SUM rule over all its rows. `members` override the rule's."""
    rule = sum_rule(groupingKeyNames=list(grouping))
    state = GroupingState.create(SCHEMA, tuple(grouping), HeapArrays())
    return state, state.plan([rule_log([rule | members]).latest.groupings[tuple(grouping)]])


def _batch(ids: np.ndarray, times: np.ndarray, payees: np.ndarray, texts: Sequence[str]) -> TransactionBatch:
    zeros = np.zeros(len(ids), dtype=np.int64)
    whole = {
        "transactionId": ids,
        "eventTime": times,
        "payeeId": payees,
        "beneficiaryId": zeros,
        "paymentAmount": zeros + 100,
        "ingestionTimestamp": times,
    }
    columns = {name: Column(values.astype(np.int64), None, None) for name, values in whole.items()}
    codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    columns["paymentType"] = Column(np.array([codes[text] for text in texts], dtype=np.int64), None, tuple(codes))
    return TransactionBatch(times, zeros.astype(np.int32), ids, columns)


class Growing:
    """A grouping state under one SUM rule with a window of a day.

    `events` has the length of the array `events` after each batch.
    """

    def __init__(self) -> None:
        self.state, self._plan = _state(["payeeId"], {"limit": 10**12, "windowMinutes": 1440})
        self._rows = 0
        self.events: list[int] = []

    def accept(self, payees: np.ndarray) -> None:
        n = len(payees)
        ids = self._rows + np.arange(n)
        batch = _batch(ids, START_MS + ids, payees, ["CSH"] * n)
        result = self.state.accept(batch, np.zeros(n, dtype=np.int64), self._plan, 0, explain=False)
        assert set(result.outcomes.tolist()) <= {at.ROW_ACCEPTED}
        self._rows += n
        self.events.append(len(self.state._view.state.events))


def test_a_long_array_grows_by_an_eighth() -> None:
    growing, rows = Growing(), 2_500
    for _ in range(60):
        growing.accept(np.arange(rows))
    steps = [(before, after) for before, after in pairwise(growing.events) if before >= 8 * rows]
    assert steps[-1][0] > 100_000
    assert max(after / before for before, after in steps) <= 1.125


def test_a_batch_grows_the_events_once() -> None:
    growing = Growing()
    for n in (70_000, 40_000):
        growing.accept(np.arange(n))
    assert growing.events == [70_000, 110_000]


def test_ranges_that_key_rows_have_left_are_used_again() -> None:
    growing, keys, batches = Growing(), 2_000, 40
    for _ in range(batches):
        growing.accept(np.arange(keys))
    assert len(growing.state._view.state.pool) < 1.8 * keys * batches


def test_a_pool_whose_packed_ranges_have_gaps_grows() -> None:
    """A range of 1,280 rows starts at a multiple of 256, so it leaves 252 rows unused after a range of 4."""
    growing, pairs = Growing(), 100
    for pair in range(pairs):
        growing.accept(np.r_[np.repeat(2 * pair, 900), 2 * pair + 1])
    assert growing.state.retained_rows == 901 * pairs


def test_a_compaction_inside_a_batch_keeps_the_strings_of_its_rows() -> None:
    keys = 1_500
    texts = [*(f"first {i}" for i in range(keys)), *(f"second {i % 300}" for i in range(keys))]
    times = START_MS + np.arange(2 * keys) + np.repeat([0, 600_000], keys)
    alerts, kept = zip(*[_counted_by_text(texts, times, size) for size in (2 * keys, 1)], strict=True)
    assert kept[0] == texts[keys:]
    assert alerts[0] == alerts[1] == list(range(keys + 600, 2 * keys))


def _counted_by_text(texts: Sequence[str], times: np.ndarray, size: int) -> tuple[list[int], list[str]]:
    """The rows that are at least the third of their text within a minute, and the texts of the retained rows, after
    batches of `size` rows."""
    state, plan = _state(["paymentType"], {"aggregatorFunctionType": "COUNT", "limit": 2, "windowMinutes": 1})
    alerts = []
    for start in range(0, len(texts), size):
        chosen = np.arange(start, min(start + size, len(texts)))
        batch = _batch(chosen, times[chosen], chosen * 0, texts[start : start + size])
        output = state.accept(batch, chosen * 0, plan, 0, explain=False).output
        alerts += (start + output[:, at.O_ROW]).tolist()
    column = state.rows().columns["paymentType"]
    assert column.dictionary is not None
    return alerts, [column.dictionary[code] for code in column.values.tolist()]


def test_keys_that_only_marks_keep_cause_no_compactions() -> None:
    """Each key pays once and alerts. The marks outlive the rows, so a compaction would remove no key."""
    rows = 30_000
    state, plan = _state(["payeeId"], {"aggregatorFunctionType": "COUNT", "limit": 0, "windowMinutes": 1})
    before = int(state.header[at.H_GENERATION])
    numbers = np.arange(rows)
    batch = _batch(numbers, START_MS + 100 * numbers, numbers, ["CSH"] * rows)
    result = state.accept(batch, np.zeros(rows, dtype=np.int64), plan, 0, explain=False)
    assert len(result.output) == rows
    assert state.retained_marks == rows
    assert int(state.header[at.H_GENERATION]) - before < 100


def test_the_room_for_many_alerts_is_freed_after_their_batch() -> None:
    rows = 3_000
    state, plan = _state(["payeeId"], {"aggregatorFunctionType": "COUNT", "limit": 0, "windowMinutes": 1})
    before = state._output.nbytes
    numbers = np.arange(rows)
    batch = _batch(numbers, START_MS + numbers, numbers, ["CSH"] * rows)
    assert len(state.accept(batch, np.zeros(rows, dtype=np.int64), plan, 0, explain=False).output) == rows
    assert state._output.nbytes == before

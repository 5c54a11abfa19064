"""How the arrays of a grouping state grow: in small steps, at most once per batch."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.arrays import HeapArrays, MappedArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import layout as at
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.places import ROOT

SCHEMA = TransactionSchema.load(ROOT / "config" / "schema.yaml")
START_MS = 1_700_000_000_000


class Growing:
    """A grouping state under one SUM rule with a window of a day.

    `events` has the length of the array `events` after each batch.
    """

    def __init__(self) -> None:
        rule = {
            "ruleId": 1,
            "ruleState": "ACTIVE",
            "groupingKeyNames": ["payeeId"],
            "aggregateFieldName": "paymentAmount",
            "aggregatorFunctionType": "SUM",
            "limitOperatorType": ">",
            "limit": 10**12,
            "windowMinutes": 1440,
        }
        entry = read_entry(0, 1, json.dumps(rule).encode(), SCHEMA, DetectorSettings().limits)
        self.state = GroupingState.create(SCHEMA, ("payeeId",), HeapArrays())
        self._plan = self.state.plan([RuleTimeline([entry]).latest.groupings["payeeId",]])
        self._rows = 0
        self.events: list[int] = []

    def accept(self, payees: np.ndarray) -> None:
        n = len(payees)
        times = START_MS + self._rows + np.arange(n)
        zeros = np.zeros(n, dtype=np.int64)
        whole = {
            "transactionId": self._rows + np.arange(n),
            "eventTime": times,
            "payeeId": payees,
            "beneficiaryId": zeros,
            "paymentAmount": zeros + 100,
            "ingestionTimestamp": times,
        }
        columns = {name: Column(values.astype(np.int64), None, None) for name, values in whole.items()}
        columns["paymentType"] = Column(zeros, None, ("CSH",))
        batch = TransactionBatch(times, zeros.astype(np.int32), np.arange(n), columns)
        result = self.state.accept(batch, zeros, self._plan, 0, explain=False)
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


def test_a_mapped_array_is_mapped_again_only_when_its_file_changes(tmp_path: Path) -> None:
    arrays, others = MappedArrays(tmp_path), MappedArrays(tmp_path)
    first = arrays.open("events", np.int64, 10, 2)
    assert arrays.open("events", np.int64, 5, 2) is first
    others.open("events", np.int64, 20, 2)[15] = 7
    grown = arrays.open("events", np.int64, 10, 2)
    assert grown.shape == (20, 2)
    assert grown[15].tolist() == [7, 7]
    others.drop("events")
    others.open("events", np.int64, 20, 2)[15] = 8
    assert arrays.open("events", np.int64, 20, 2)[15].tolist() == [8, 8]
    assert grown[15].tolist() == [7, 7]

"""The strings of a grouping state: those of its rows and keys, and no more, however many pass through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import Arrays, HeapArrays, MappedArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.window import layout as at
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import rule_log

START_MS = 1_700_000_000_000
BATCH, KEYS = 500, 40
BATCH_MS = 20_000
SCHEMAS = {
    kind: TransactionSchema(
        (
            Field("transactionId", kind),
            Field("eventTime", FieldType.TIMESTAMP),
            Field("payer", FieldType.STRING),
            Field("device", FieldType.STRING, nullable=True),
            Field("amount", FieldType.DECIMAL, precision=18, scale=2),
        )
    )
    for kind in (FieldType.LONG, FieldType.STRING)
}
RULES = [
    {"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["device"], "limit": 30},
    {"aggregatorFunctionType": "SUM", "aggregateFieldName": "amount", "limit": 2_500, "filter": "device <> 'device 3'"},
    {"aggregatorFunctionType": "COUNT_WITH_RESET", "limit": 33},
]


class Payments(NamedTuple):
    """Payments by column: ids, times, payers and devices as numbers, and whether they have a device."""

    ids: np.ndarray
    times: np.ndarray
    payers: np.ndarray
    devices: np.ndarray
    has_device: np.ndarray

    def batch(self, schema: TransactionSchema) -> TransactionBatch:
        zeros = np.zeros(len(self.ids), dtype=np.int64)
        id_text = schema.fields[0].type is FieldType.STRING
        columns = {
            "transactionId": texts("id", self.ids) if id_text else Column(self.ids, None, None),
            "eventTime": Column(self.times, None, None),
            "payer": texts("payer", self.payers),
            "device": texts("device", self.devices, self.has_device),
            "amount": Column(zeros + 10_000, None, None),
        }
        return TransactionBatch(self.times, zeros.astype(np.int32), self.ids, columns)


def texts(prefix: str, numbers: np.ndarray, valid: np.ndarray | None = None) -> Column:
    used, codes = np.unique(numbers if valid is None else numbers[valid], return_inverse=True)
    values = np.zeros(len(numbers), dtype=np.int64)
    values[slice(None) if valid is None else valid] = codes
    return Column(values, valid, tuple(f"{prefix} {number}" for number in used.tolist()))


def payments(batches: int) -> Iterator[Payments]:
    """Payments of which some are displaced, some are too late and some come twice; each has an id of its own, and each
    payer has new devices again and again."""
    random = np.random.default_rng(7)
    for number in range(batches):
        ids = number * BATCH + np.arange(BATCH)
        times = START_MS + number * BATCH_MS + np.sort(random.integers(0, BATCH_MS, BATCH))
        times -= np.where(random.random(BATCH) < 0.1, random.integers(0, 400_000, BATCH), 0)
        ids[random.random(BATCH) < 0.02] = ids[0]
        payers = random.integers(0, KEYS, BATCH) + number // 20
        yield Payments(ids, times, payers, number * 20 + random.integers(0, 40, BATCH), random.random(BATCH) < 0.9)


class Evaluated:
    """A grouping state with UUID-like or whole ids, under rules with windows of a minute."""

    def __init__(self, kind: FieldType, arrays: Arrays) -> None:
        self.schema = SCHEMAS[kind]
        common = {"ruleState": "ACTIVE", "groupingKeyNames": ["payer"], "limitOperatorType": ">", "windowMinutes": 1}
        rules = [{"ruleId": number, **common, "unique": [], **each} for number, each in enumerate(RULES, start=1)]
        self._groupings = [rule_log(rules, schema=self.schema).latest.groupings["payer",]]
        self.state = GroupingState.create(self.schema, ("payer",), arrays)

    def accept(self, each: Payments, state: GroupingState | None = None) -> tuple[list[int], list[list[int]]]:
        """The outcomes, and the alerts by row, rule and aggregate."""
        state = state or self.state
        plan = state.plan(self._groupings)
        versions = np.zeros(len(each.ids), dtype=np.int64)
        result = state.accept(each.batch(self.schema), versions, plan, 60_000, explain=False)
        columns = [at.O_ROW, at.O_RULE, at.O_COUNT, at.O_VALUES, at.O_HIGH, at.O_LOW]
        return result.outcomes.tolist(), result.output[:, columns].tolist()

    @property
    def strings(self) -> int:
        return int(self.state.header[at.H_STRINGS])


def test_strings_leave_the_state_with_their_rows() -> None:
    """120 seconds are retained, which is six batches. 100,000 ids pass through."""
    evaluated, held, sizes = Evaluated(FieldType.STRING, HeapArrays()), [], []
    for each in payments(200):
        evaluated.accept(each)
        held.append(evaluated.strings)
        sizes.append(evaluated.state.retained_bytes)
    assert max(held) < 20_000
    assert max(sizes[100:]) < 1.3 * max(sizes[:100])


def test_strings_count_as_state() -> None:
    evaluated = Evaluated(FieldType.STRING, HeapArrays())
    before = evaluated.state.retained_bytes
    for each in payments(4):
        evaluated.accept(each)
    size_bytes = evaluated.state.string_bytes
    assert size_bytes > evaluated.strings * len("device 3")
    assert evaluated.state.retained_bytes - before > size_bytes


def test_strings_of_rejected_rows_leave_too() -> None:
    """Rows below the retention bound never enter the state, so its rows alone would not limit the strings."""
    evaluated = Evaluated(FieldType.STRING, HeapArrays())
    first, *others = payments(200)
    evaluated.accept(first._replace(times=first.times + 10 * 86_400_000))
    for each in others:
        outcomes, _ = evaluated.accept(each)
        assert set(outcomes) == {at.ROW_LATE_EXPIRED}
    assert evaluated.strings < 10_000


def test_dropped_strings_change_no_result(tmp_path: Path) -> None:
    """Two workers with common files take turns. The strings are dropped every few batches."""
    whole = Evaluated(FieldType.LONG, HeapArrays())
    text = Evaluated(FieldType.STRING, MappedArrays(tmp_path / "state"))
    workers = [text.state, GroupingState(text.schema, ("payer",), MappedArrays(tmp_path / "state"))]
    drops, before, alerts = 0, 0, 0
    for number, each in enumerate(payments(120)):
        found, expected = text.accept(each, workers[number % 2]), whole.accept(each)
        assert found == expected
        alerts += len(expected[1])
        drops += text.strings < before
        before = text.strings
        if number % 10 == 9:
            assert rows_of(workers[0]) == rows_of(whole.state)
            assert marks_of(workers[1]) == marks_of(whole.state)
    assert drops >= 5
    assert alerts > 100


def rows_of(state: GroupingState) -> list[tuple[object, ...]]:
    rows = state.rows()
    columns = [rows.columns[name] for name in ("eventTime", "payer", "device")]
    ids = rows.columns["transactionId"]
    numbers = ids.values if ids.dictionary is None else [int(text_of(ids, i)[3:]) for i in range(len(rows))]
    return [(int(numbers[i]), *(text_of(column, i) for column in columns)) for i in range(len(rows))]


def marks_of(state: GroupingState) -> list[tuple[object, ...]]:
    marks = state.marks()
    chosen = marks.rows[:, [at.M_RULE, at.M_LAST_TIME, at.M_SUPPRESSED]].tolist()
    return [(text_of(marks.keys[0], i), *row) for i, row in enumerate(chosen)]


def text_of(column: Column, i: int) -> str:
    if column.valid is not None and not column.valid[i]:
        return ""
    return str(column.values[i]) if column.dictionary is None else column.dictionary[column.values[i]]


@pytest.mark.parametrize("text", ["", "é", "\0", "long " * 50, "a" * 8, "a" * 16])
def test_every_text_returns_as_it_came(text: str) -> None:
    evaluated = Evaluated(FieldType.STRING, HeapArrays())
    (each,) = payments(1)
    batch = each.batch(evaluated.schema)
    named = Column(np.arange(BATCH) % 2, None, (text, f"{text}b"))
    state = evaluated.state
    state.load(TransactionBatch(batch.append_ms, batch.partition, batch.offset, batch.columns | {"payer": named}),
               batch.offset, ())  # fmt: skip
    column = state.rows().columns["payer"]
    assert [text_of(column, i) for i in range(BATCH)] == [text, f"{text}b"] * (BATCH // 2)

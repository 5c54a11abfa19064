"""Sums in the state log: they add up in any order, leave out what they do not need, and stay readable."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from fraud_rules.engine.state.chunks import ChunkPart, decode_parts, encode_parts
from fraud_rules.engine.state.head import GroupingStateHead, Head, decode_head, encode_head
from fraud_rules.engine.state.series_sums import (
    NO_SUMS,
    U_ROWS,
    U_SERIES,
    U_TIME,
    SeriesHead,
    StepSums,
    SumPolicy,
    SumSource,
    add_up,
    concat_sums,
    sums_of_rows,
)
from fraud_rules.engine.window import layout as at
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.transaction import Column, TransactionBatch

FIELDS = ("payeeId",)
SOURCE = SumSource(7, 0, 10, None, "points", has_totals=True, has_squares=True, has_extremes=True)
VALUES = [5, -3, 2**62, -(2**62), 0, 7, 1, -1]


def rows(times: Sequence[int], values: Sequence[int | None], keys: Sequence[int]) -> TransactionBatch:
    """Rows appended at their event time, with their positions as arrival numbers."""
    n, ms = len(times), np.array(times, dtype=np.int64)
    valid = np.array([each is not None for each in values])
    columns = {
        TIME_FIELD: Column(ms, None, None),
        "points": Column(np.array([each or 0 for each in values], dtype=np.int64), valid, None),
        "payeeId": Column(np.array(keys, dtype=np.int64), None, None),
    }
    return TransactionBatch(ms, np.zeros(n, dtype=np.int32), np.arange(n, dtype=np.int64), columns)


def comparable(sums: StepSums) -> list[tuple[object, ...]]:
    keys = [column.values.tolist() for column in sums.keys]
    return sorted(zip(map(tuple, sums.numbers.tolist()), *keys, strict=True))


def read(sums: StepSums) -> list[tuple[int, ...]]:
    """Per sum: key, step, rows, values, total, total of squares, least, greatest."""
    found = []
    for key, row in zip(sums.keys[0].values.tolist(), sums.numbers.tolist(), strict=True):
        squares = sum(row[7 + k] << (32 * k) for k in range(4))
        found.append((key, row[2] // 10, row[3], row[4], (row[6] << 32) + row[5], squares, row[11], row[12]))
    return sorted(found)


def test_a_sum_is_that_of_the_rows_of_a_key_and_step() -> None:
    batch = rows(range(8), VALUES, [1, 1, 1, 1, 2, 2, 2, 2])
    assert read(add_up(sums_of_rows(batch, SOURCE, FIELDS), [SOURCE])) == [
        (1, 0, 4, 4, 2, 25 + 9 + 2**125, -(2**62), 2**62),
        (2, 0, 4, 4, 7, 51, -1, 7),
    ]


@pytest.mark.parametrize("cut", range(1, 8))
def test_sums_of_parts_add_up(cut: int) -> None:
    batch = rows([3, 17, 9, 10, 11, 30, 29, 12], [*VALUES[:7], None], [1, 1, 2, 2, 1, 1, 1, 2])
    whole = add_up(sums_of_rows(batch, SOURCE, FIELDS), [SOURCE])
    parts = [batch.take(np.arange(cut)), batch.take(np.arange(cut, 8))]
    sums = [add_up(sums_of_rows(each, SOURCE, FIELDS), [SOURCE]) for each in parts]
    assert read(add_up(concat_sums(sums), [SOURCE])) == read(whole)


def test_packed_sums_are_the_same() -> None:
    sums = add_up(sums_of_rows(rows([3, 17, 9], [1, None, -4], [1, 1, 2]), SOURCE, FIELDS), [SOURCE])
    assert comparable(StepSums.unpack(sums.pack())) == comparable(sums)


@pytest.mark.parametrize("keys", [[], [7], [5, 5, 6, 300], [2**63 - 1, -(2**63), 0, -1]])
@pytest.mark.parametrize("start_ms", [0, -(2**40), 2**62])
def test_packed_sums_have_any_keys_and_times_in_any_order(keys: list[int], start_ms: int) -> None:
    times = [start_ms + 3_599_999 * i * (-1) ** i for i in range(len(keys))]
    sums = sums_of_rows(rows(times, VALUES[: len(keys)], keys), SOURCE, FIELDS)
    again = StepSums.unpack(sums.pack())
    assert again.numbers.tolist() == sums.numbers.tolist()
    assert [key.values.tolist() for key in again.keys] == [keys]


def test_packed_sums_keep_the_texts_of_keys() -> None:
    sums = sums_of_rows(rows([3, 4, 9], [1, 2, 3], [1, 0, 1]), SOURCE, FIELDS)
    column = Column(sums.keys[0].values, None, ("Zürich", "Bern"))
    again = StepSums.unpack(StepSums(sums.numbers, (column,)).pack())
    assert [again.keys[0].dictionary[code] for code in again.keys[0].values] == ["Bern", "Zürich", "Bern"]


def test_a_count_packs_neither_totals_nor_extremes() -> None:
    counting = SumSource(7, 0, 10, None, None, has_totals=False, has_squares=False, has_extremes=False)
    sums = add_up(sums_of_rows(rows([3, 4, 9], [1, None, -4], [1, 1, 2]), counting, FIELDS), [counting])
    _, count, _, columns, keys = msgspec.msgpack.decode(sums.pack())
    assert (count, list(columns), len(keys)) == (2, [U_SERIES, U_TIME, U_ROWS], 1)


def test_a_total_of_an_hour_takes_few_bytes() -> None:
    totals = SumSource(7, 0, 3_600_000, None, "points", has_totals=True, has_squares=False, has_extremes=False)
    n, hours = 2_000, 1_000
    times = [7 * i % hours * 3_600_000 + 7_919 * i % 3_600_000 for i in range(n)]
    sums = add_up(
        sums_of_rows(rows(times, [97 * i for i in range(n)], [i * i // 50 for i in range(n)]), totals, FIELDS), [totals]
    )
    assert len(sums.pack()) < 14 * len(sums)


def test_sums_of_another_format_are_refused() -> None:
    packed = msgspec.msgpack.decode(NO_SUMS.pack())
    with pytest.raises(ValueError, match="packed sums of format 2; this version reads 1"):
        StepSums.unpack(msgspec.msgpack.encode([2, *packed[1:]]))


@pytest.mark.parametrize(
    ("began_ms", "bound_ms", "counted"), [(at.NONE, at.NONE, 4), (15, at.NONE, 3), (at.NONE, 20, 2), (99, 0, 0)]
)
def test_only_settled_rows_before_the_retention_bound_become_sums(began_ms: int, bound_ms: int, counted: int) -> None:
    series = SeriesHead(7, began_ms, bound_ms, at.NONE, is_warm=False, ended_ms=at.NONE)
    policy = SumPolicy(FIELDS, 0, 35, [series], [SOURCE])
    folded = policy.fold(rows([5, 15, 25, 30, 36, 50], [1] * 6, [1] * 6), 40, [])
    assert folded.rows.columns[TIME_FIELD].values.tolist() == [36, 50]
    assert int(folded.sums.numbers[:, 3].sum()) == counted
    assert folded.end == 4


def test_rows_stay_while_a_series_that_is_over_can_still_have_them() -> None:
    policy = SumPolicy(FIELDS, 0, 35, [], None)
    folded = policy.fold(rows([5, 15], [1, 1], [1, 1]), 40, [NO_SUMS])
    assert len(folded.rows) == 2


def test_heads_and_chunks_of_an_older_release_stay_readable() -> None:
    state = GroupingStateHead(3, FIELDS, 1, 1, 10, 20, 30, 40, 50)
    head = Head(states=[state])
    old = msgspec.msgpack.decode(encode_head(head))
    old[4] = [each[:9] for each in old[4]]
    assert decode_head(msgspec.msgpack.encode(old)) == head
    part = ChunkPart(3, b"rows", b"marks")
    old_part = msgspec.msgpack.encode([each[:3] for each in msgspec.msgpack.decode(encode_parts([part]))])
    assert decode_parts(old_part) == [part]

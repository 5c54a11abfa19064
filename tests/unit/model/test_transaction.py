"""Batches of transactions: rows survive packing, taking, concatenation, and a round trip through the codec."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.scalar import TIMESTAMP_MIN_MS
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.converters import column_of
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.places import ROOT

DEFAULT = TransactionSchema.load(ROOT / "config" / "schema.yaml")
WIDE = TransactionSchema(
    (
        Field("transactionId", FieldType.STRING),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("amount", FieldType.DECIMAL, True, (), 18, 6),
        Field("count", FieldType.DECIMAL, True, (), 1, 0),
        Field("account", FieldType.LONG, True),
        Field("channel", FieldType.STRING, True),
        Field("seen", FieldType.TIMESTAMP, True),
    )
)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-62_135_596_800_000, 253_402_300_799_999)
APPEND_TIMES = st.integers(0, 253_402_300_799_999)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=256)


def cells(field: Field) -> st.SearchStrategy[int | str | None]:
    """Exact values of a field: decimals unscaled."""
    bound = 10**field.precision - 1
    kinds: dict[FieldType, st.SearchStrategy[int | str]] = {
        FieldType.LONG: INT64,
        FieldType.TIMESTAMP: TIMES,
        FieldType.DECIMAL: st.integers(-bound, bound),
        FieldType.STRING: st.sampled_from(("CSH", "CRD")) | TEXTS,
    }
    return st.none() | kinds[field.type] if field.nullable else kinds[field.type]


@st.composite
def batches(draw: st.DrawFn, schema: TransactionSchema) -> TransactionBatch:
    rows = draw(st.lists(st.tuples(*map(cells, schema.fields)), max_size=12))
    n = len(rows)
    columns = {
        field.name: column_of(field, [row[position] for row in rows]) for position, field in enumerate(schema.fields)
    }
    places = draw(
        st.lists(st.tuples(APPEND_TIMES, st.integers(0, 2**31 - 1), st.integers(0, 2**62)), min_size=n, max_size=n)
    )
    append_ms, partition, offset = np.array(places, np.int64).reshape(n, 3).T
    return TransactionBatch(append_ms, partition.astype(np.int32), offset, columns)


def content(batch: TransactionBatch, schema: TransactionSchema) -> list[Any]:
    """The content of a batch, row by row."""
    return [
        (int(batch.append_ms[i]), int(batch.partition[i]), int(batch.offset[i]), batch.row(i, schema))
        for i in range(len(batch))
    ]


def assert_well_formed(batch: TransactionBatch) -> None:
    n = len(batch)
    assert (batch.append_ms.dtype, batch.offset.dtype, batch.partition.dtype) == (np.int64, np.int64, np.int32)
    for column in batch.columns.values():
        assert (column.values.dtype, column.values.shape) == (np.int64, (n,))
        assert column.values.flags.aligned
        if column.valid is not None:
            assert (column.valid.dtype, column.valid.shape) == (np.bool_, (n,))
            assert not column.values[~column.valid].any()
        if column.dictionary is not None:
            assert len(set(column.dictionary)) == len(column.dictionary)


@pytest.mark.parametrize("schema", [DEFAULT, WIDE], ids=["default", "wide"])
@given(data=st.data())
def test_a_batch_survives_pack_and_unpack(schema: TransactionSchema, data: st.DataObject) -> None:
    batch = data.draw(batches(schema))
    again = TransactionBatch.unpack(batch.pack())
    assert_well_formed(again)
    assert content(again, schema) == content(batch, schema)
    assert tuple(again.columns) == tuple(batch.columns)
    assert again.pack() == batch.pack()


@given(data=st.data())
def test_take_selects_the_given_rows(data: st.DataObject) -> None:
    batch = data.draw(batches(WIDE))
    positions = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=20)) if len(batch) else []
    taken = batch.take(np.array(positions, np.int64))
    assert_well_formed(taken)
    before = content(batch, WIDE)
    assert content(taken, WIDE) == [before[position] for position in positions]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))), np.bool_)
    assert content(batch.take(mask), WIDE) == [row for row, wanted in zip(before, mask, strict=True) if wanted]


@given(st.lists(batches(WIDE), max_size=4))
def test_concat_gives_the_rows_of_all_in_order(parts: list[TransactionBatch]) -> None:
    whole = TransactionBatch.concat(parts)
    assert_well_formed(whole)
    assert content(whole, WIDE) == [row for part in parts for row in content(part, WIDE)]


def test_a_take_of_few_rows_keeps_only_the_texts_they_use() -> None:
    n = 1_000
    texts = Column(np.arange(n), None, tuple(f"id-{i}" for i in range(n)))
    batch = TransactionBatch(np.zeros(n, np.int64), np.zeros(n, np.int32), np.arange(n), {"transactionId": texts})
    taken = batch.take(np.array([999, 7, 999])).columns["transactionId"]
    assert taken.dictionary == ("id-7", "id-999")
    assert taken.values.tolist() == [1, 0, 1]


@pytest.mark.parametrize(("field", "known"), [(WIDE.fields[5], "web"), (WIDE.fields[4], 7)], ids=["text", "number"])
def test_concat_reads_a_field_declared_later_as_null(field: Field, known: int | str) -> None:
    def one_row(columns: dict[str, Column]) -> TransactionBatch:
        return TransactionBatch(np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64), columns)

    old, new = one_row({}), one_row({field.name: column_of(field, [known])})
    rows = [TransactionBatch.concat(parts).row(i, WIDE) for parts in ((old, new), (new, old)) for i in (0, 1)]
    assert rows == [{}, {field.name: known}, {field.name: known}, {}]


def test_a_packed_batch_of_another_format_is_refused() -> None:
    packed = msgspec.msgpack.decode(TransactionBatch.concat([]).pack())
    with pytest.raises(ValueError, match="format 99"):
        TransactionBatch.unpack(msgspec.msgpack.encode([99, *packed[1:]]))


def as_json(row: dict[str, object], *, quoted: bool) -> bytes:
    """A row as its producer would write it; amounts as text when `quoted`."""
    members = [
        f"{json.dumps(name)}: {value if isinstance(value, Decimal) and not quoted else json.dumps(value, default=str)}"
        for name, value in row.items()
    ]
    return ("{" + ", ".join(members) + "}").encode()


@pytest.mark.parametrize("schema", [DEFAULT, WIDE], ids=["default", "wide"])
@given(data=st.data(), quoted=st.booleans())
def test_a_row_survives_encoding_and_decoding(schema: TransactionSchema, data: st.DataObject, quoted: bool) -> None:
    batch = data.draw(batches(schema))
    values = [as_json(batch.row(i, schema), quoted=quoted) for i in range(len(batch))]
    decoded = decode_transactions(
        RawTransactions.of(values, batch.partition, batch.offset, batch.append_ms),
        schema,
        RecordLimits(10**15, TIMESTAMP_MIN_MS),
    )
    assert decoded.rejects == []
    assert_well_formed(decoded.batch)
    assert content(decoded.batch, schema) == content(batch, schema)


def test_a_row_is_ready_for_json() -> None:
    record = b'{"transactionId":1,"eventTime":"1970-01-01T00:00:01Z","payerId":2,"beneficiaryId":3,"paymentAmount":6,'
    record += b'"paymentType":"CSH"}'
    decoded = decode_transactions(
        RawTransactions.of([record], [0], [0], [5_000]), DEFAULT, RecordLimits(event_time_floor_ms=0)
    )
    assert list(decoded.batch.row(0, DEFAULT).items()) == [
        ("transactionId", 1),
        ("eventTime", 1_000),
        ("payeeId", 2),
        ("beneficiaryId", 3),
        ("paymentType", "CSH"),
        ("paymentAmount", Decimal("6.00")),
    ]
    assert str(decoded.batch.row(0, DEFAULT)["paymentAmount"]) == "6.00"

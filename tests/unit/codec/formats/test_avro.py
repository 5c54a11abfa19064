"""Avro records: the values of each type, evolution, and hostile bytes. fastavro writes the data."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.formats.avro import avro_decoder
from fraud_rules.codec.formats.avro_schema import parse_avro
from fraud_rules.codec.formats.places import FieldPlaces
from fraud_rules.codec.formats.schemas import NamedText
from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Path
from tests.support.formats.places import optional, required


def record(name: str = "Payment", /, **members: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": value} for key, value in members.items()]}


def long(logical: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


def written(schema: Any, datum: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return stream.getvalue()


def decoded(
    schema: Any, value: bytes, fields: Sequence[FieldPlaces], defaults: Any = None, references: Sequence[NamedText] = ()
) -> Any:
    base = None if defaults is None else parse_avro(json.dumps(defaults))
    return avro_decoder(parse_avro(json.dumps(schema), references), fields, base)(value, 0)


def at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def reason(tree: object) -> str | None:
    return tree.reason if isinstance(tree, RecordRejected) else None


NOON = datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
NOON_MS = 1_709_208_000_123
VALUES = [
    ("long", 2**63 - 1, 2**63 - 1),
    ("int", -5, -5),
    ("boolean", True, True),
    ("string", "Zoë", "Zoë"),
    ("bytes", b"\xff\x00", b"\xff\x00"),
    (long("timestamp-millis"), NOON, EpochMs(NOON_MS)),
    (long("timestamp-micros"), NOON, EpochMs(NOON_MS)),
    (long("timestamp-micros"), -1, EpochMs(-1)),
    (long("timestamp-nanos"), NOON_MS * 1_000_000 + 999_999, EpochMs(NOON_MS)),
    (long("local-timestamp-micros"), NOON_MS * 1_000 + 456, "2024-02-29T12:00:00.123000"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, NOON_MS * 1_000, EpochMs(NOON_MS)),
    ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), "2024-02-29"),
    ({"type": "int", "logicalType": "time-millis"}, 5, 5),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=7), str(UUID(int=7))),
    ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, UUID(int=7).bytes, str(UUID(int=7))),
    ({"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}, Decimal("-12.50"), Decimal("-12.50")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 33}, *2 * [Decimal(1).scaleb(-33)]),
    ({"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 9}, Decimal(7), Decimal(7)),
    ({"type": "enum", "name": "Kind", "symbols": ["CASH", "CARD"]}, "CARD", "CARD"),
    ("double", 12.34, Decimal("12.34")),
    ("float", 12.34, Decimal("12.34")),
    ("double", 1e300, Decimal("1e300")),
    (["null", "string"], None, None),
    (["null", long("timestamp-millis")], NOON, EpochMs(NOON_MS)),
    (["null", "string", "double"], 0.1, Decimal("0.1")),
    (["string", "double"], "0.1", "0.1"),
]


@pytest.mark.parametrize(("kind", "datum", "expected"), VALUES, ids=[str(kind)[:60] for kind, _, _ in VALUES])
@pytest.mark.parametrize("path", [("a",), ("outer", "a"), ("list", 1), ("map", "k")], ids=str)
def test_each_type_has_an_exact_value(kind: Any, datum: Any, expected: object, path: Path) -> None:
    match path:
        case ("a",):
            schema, whole = record(a=kind), {"a": datum}
        case ("outer", "a"):
            schema, whole = record(outer=["null", record("Outer", x="int", a=kind)]), {"outer": {"x": 1, "a": datum}}
        case ("list", 1):
            schema, whole = record(list={"type": "array", "items": kind}), {"list": [datum, datum, datum]}
        case _:
            schema, whole = record(map={"type": "map", "values": kind}), {"map": {"j": datum, "k": datum}}
    value = at(decoded(schema, written(schema, whole), required(path)), path)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_float_that_is_no_number_fits_no_field(number: str) -> None:
    schema = record(a="double")
    assert not decoded(schema, written(schema, {"a": float(number)}), required("a"))["a"].is_finite()


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(0, 18))
def test_a_decimal_is_exact(unscaled: int, scale: int) -> None:
    schema = record(a={"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": scale})
    amount = Decimal(unscaled).scaleb(-scale)
    assert decoded(schema, written(schema, {"a": amount}), required("a"))["a"] == amount


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_shortest_decimal_of_its_width(number: float) -> None:
    schema = record(a="float", b="double")
    tree = decoded(schema, written(schema, {"a": number, "b": number}), required("a", "b"))
    assert [float(tree["a"]), float(tree["b"])] == [pytest.approx(number, rel=1e-7), number]
    assert len(tree["a"].as_tuple().digits) <= 9


def test_a_decimal_with_more_digits_than_declared_is_malformed() -> None:
    schema = record(a={"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    value = written(record(a="bytes"), {"a": (12_345).to_bytes(2, "big")})
    assert reason(decoded(schema, value, required("a"))) == "malformed_avro"


def test_a_decimal_with_a_wrong_declaration_is_bytes() -> None:
    for precision, scale in ((2, 5), (0, 0), (5_000, 2), ("2", 1)):
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        assert decoded(record(a=kind), b"\2\x07", required("a")) == {"a": b"\x07"}


def test_a_time_outside_the_calendar_is_malformed() -> None:
    schema = record(a=long("local-timestamp-millis"))
    value = written(record(a="long"), {"a": 2**62})
    assert reason(decoded(schema, value, required("a"))) == "malformed_avro"


def test_records_of_a_union_lose_the_name_of_their_branch() -> None:
    card, wire = record("shop.Card", at=long("timestamp-millis")), record("shop.Wire", at=long("timestamp-micros"))
    schema = record(payment=["null", card, wire], id="long")
    for name, times in (("shop.Card", 1), ("shop.Wire", 1_000)):
        datum = {"payment": (name, {"at": NOON_MS * times}), "id": 1}
        assert decoded(schema, written(schema, datum), required(("payment", "at"))) == {
            "payment": {"at": EpochMs(NOON_MS)}, "id": 1,
        }  # fmt: skip
    assert decoded(schema, written(schema, {"payment": None, "id": 1}), required("id"))["payment"] is None


def test_a_union_at_the_top_and_references_to_other_schemas() -> None:
    card, refund = record("shop.Card", id="long"), record("shop.Refund", of="shop.Card", id="long")
    schema = ["shop.Card", "shop.Refund"]
    names: dict[str, Any] = {}
    kinds = [fastavro.parse_schema(each, names) for each in (card, refund)]
    value = b"\2" + written(kinds[1], {"of": {"id": 5}, "id": 6})
    references = [NamedText("card", json.dumps(card)), NamedText("refund", json.dumps(refund))]
    tree = decoded(schema, value, [*required("id"), *optional(("of", "id"))], references=references)
    assert tree == {"of": {"id": 5}, "id": 6}


def test_a_union_whose_values_do_not_show_their_type_is_incompatible() -> None:
    schema = record(a=["float", "double"])
    with pytest.raises(RecordRejected, match="incompatible_schema: a union has several types of float"):
        decoded(schema, b"", required("a"))
    assert decoded(record(a=["float", "double"], b="int"), b"\0\0\0\0\0\2", required("b"))["b"] == 1


V1 = record(id="long", amount="int")
V2 = {**V1, "fields": [*V1["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
EVOLUTION = [
    ("a member less, with a default", V1, {"id": 1, "amount": 2}, ["currency"], V2, {"currency": "EUR"}),
    ("a member less, nullable", V1, {"id": 1, "amount": 2}, [], None, {"id": 1, "amount": 2}),
    ("a member more", V2, {"id": 1, "amount": 2, "currency": "USD"}, ["currency"], None, {"currency": "USD"}),
    ("both have the member", V2, {"id": 1, "amount": 2, "currency": "USD"}, ["currency"], V2, {"currency": "USD"}),
    ("an int became a long", record(id="long", amount="long"), {"id": 1, "amount": 2**40}, [], V1, {"amount": 2**40}),
    ("the order changed", record(amount="int", id="long"), {"id": 1, "amount": 2}, [], V1, {"id": 1, "amount": 2}),
    (
        "the default of a nested member, with its type",
        record(id="long", p=record("P", x="int")),
        {"id": 1, "p": {"x": 1}},
        [("p", "at")],
        record(p={
            "type": "record", "name": "P",
            "fields": [{"name": "at", "type": long("timestamp-micros"), "default": 1_500}],
        }),
        {"p": {"x": 1, "at": EpochMs(1)}},
    ),
    (
        "the default of a decimal",
        V1,
        {"id": 1, "amount": 2},
        ["fee"],
        record(id="long") | {"fields": [{
            "name": "fee", "default": "\u0004\u00e2",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        }]},
        {"fee": Decimal("12.50")},
    ),
    (
        "the default of a union",
        V1,
        {"id": 1, "amount": 2},
        ["note"],
        record() | {"fields": [{"name": "note", "type": ["null", "string"], "default": None}]},
        {"note": None},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "datum", "further", "defaults", "expected"),
    [row[1:] for row in EVOLUTION],
    ids=[r[0] for r in EVOLUTION],
)
def test_evolution(schema: Any, datum: Any, further: list[Path], defaults: Any, expected: dict[str, object]) -> None:
    fields = [*required("id", *further), *optional("amount", "absent")]
    tree = decoded(schema, written(schema, datum), fields, defaults)
    assert {name: tree[name] for name in expected} == expected
    assert "absent" not in tree


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (record(id="long"), ("amount",)),
        (record(amount="double"), ("amount", "value")),
        (record(amount={"type": "array", "items": record("A", value="int")}), ("amount", "value")),
        (record(amount=["null", record("A", v="int")]), ("amount", "value")),
        ("string", ("amount",)),
    ],
    ids=["absent", "a number", "an array", "another member", "no record"],
)
def test_a_schema_without_a_place_for_a_required_field_is_incompatible(schema: Any, path: Path) -> None:
    with pytest.raises(RecordRejected) as caught:
        decoded(schema, b"", required(path))
    assert caught.value.reason == "incompatible_schema"
    assert "_".join(map(str, path)) in caught.value.detail


FIXED = {"type": "fixed", "name": "F", "size": 4}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (NODE, "contains itself"),
        (record(a={"type": "map", "values": NODE}), "contains itself"),
        (record(a={"type": "array", "items": "null"}), "without bytes"),
        (record(a={"type": "array", "items": record("Empty", x="null")}), "without bytes"),
        ({"type": "record", "fields": []}, "no Avro schema"),
        ({"type": "unknown"}, "no Avro schema"),
        (17, "no Avro schema"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_with_unbounded_data_or_faults_is_not_used(schema: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_avro(json.dumps(schema))


def test_text_that_is_no_schema() -> None:
    for text in ("", "{", "[" * 100_000, '{"type":' * 50_000):
        with pytest.raises(ValueError, match="no Avro schema"):
            parse_avro(text)


ALL = record(
    id="long", time=long("timestamp-millis"), name="string", ok="boolean", raw="bytes",
    amount={"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
    kind={"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, note=["null", "string"],
    rates={"type": "array", "items": "double"}, tags={"type": "map", "values": "float"},
    key={"type": "fixed", "name": "Key", "size": 4}, inner=record("Inner", x="double", y="boolean"),
)  # fmt: skip
DATUM = {
    "id": 7, "time": NOON, "name": "Zoë", "ok": True, "raw": b"abc", "amount": Decimal("1.25"), "kind": "B",
    "note": "n", "rates": [1.5, 2.5], "tags": {"a": 0.5}, "key": b"1234", "inner": {"x": 1.0, "y": False},
}  # fmt: skip
EVERY_FIELD = (*required(*DATUM), *optional(("inner", "x"), ("rates", 1), ("tags", "a")))


def test_every_truncation_and_every_further_byte_is_malformed() -> None:
    whole = written(ALL, DATUM)
    decode = avro_decoder(parse_avro(json.dumps(ALL)), EVERY_FIELD)
    assert decode(whole, 0)["amount"] == Decimal("1.25")
    for value in [*(whole[:n] for n in range(len(whole))), whole + b"\0"]:
        assert reason(decode(value, 0)) == "malformed_avro"


@pytest.mark.parametrize("kind", ["double", "boolean", "float", "long", "string", FIXED])
@pytest.mark.parametrize("of", ["items", "values"])
def test_a_huge_length_costs_neither_time_nor_memory(kind: Any, of: str) -> None:
    """A member that no field reads is no exception: fastavro skips an array of numbers without noticing its end."""
    schema = record(a={"type": "array" if of == "items" else "map", of: kind}, text="string", b="int")
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    tracemalloc.start()
    try:
        for value in (huge, huge + b"\2", b"\0" + huge + b"x", b"\1" + huge + huge):
            assert reason(decoded(schema, value, required("b"))) == "malformed_avro"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_random_bytes_are_a_record_or_malformed(value: bytes) -> None:
    tree = avro_decoder(parse_avro(json.dumps(ALL)), EVERY_FIELD)(value, 0)
    assert isinstance(tree, dict) or reason(tree) == "malformed_avro"


@given(st.data())
def test_changed_bytes_are_a_record_or_malformed(data: st.DataObject) -> None:
    value = bytearray(written(ALL, DATUM))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    tree = avro_decoder(parse_avro(json.dumps(ALL)), EVERY_FIELD)(bytes(value), 0)
    assert isinstance(tree, dict) or reason(tree) == "malformed_avro"

"""Protobuf records: the values of each type, presence, evolution, descriptor sets, sources, and hostile bytes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.formats.protobuf import protobuf_decoder
from fraud_rules.codec.formats.protobuf_schema import message_at, message_named
from fraud_rules.codec.formats.schemas import NamedText, RegisteredSchema
from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.errors import RecordRejected
from tests.support.formats.places import optional, required
from tests.support.formats.protobuf_types import WELL_KNOWN, built, descriptor_set, file, map_of, member, message

_TAGS, _TAG = map_of("tags", 20, "string", "double", ".shop.Payment")
_RATES, _RATE = map_of("rates", 21, "int32", ".shop.Inner", ".shop.Payment")
TYPES = (
    message(
        "Inner",
        member("x", 1, "int64"),
        member("at", 2, ".google.protobuf.Timestamp"),
        member("next", 3, ".shop.Inner"),
    ),
    message(
        "Payment",
        member("id", 1, "int64"),
        member("unsigned", 2, "uint64"),
        member("name", 3, "string"),
        member("ok", 4, "bool"),
        member("raw", 5, "bytes"),
        member("wide", 6, "double"),
        member("narrow", 7, "float"),
        member("kind", 8, "#.shop.Payment.Kind"),
        member("note", 9, "string", optional=True),
        member("at", 10, ".google.protobuf.Timestamp"),
        member("count", 11, ".google.protobuf.Int64Value"),
        member("share", 12, ".google.protobuf.DoubleValue"),
        member("inner", 13, ".shop.Inner"),
        member("list", 14, ".shop.Inner", repeated=True),
        member("numbers", 15, "int64", repeated=True),
        member("floats", 16, "float", repeated=True),
        member("money", 17, ".google.type.Money"),
        member("text", 18, ".google.type.Decimal"),
        member("decimal", 19, ".confluent.type.Decimal"),
        _TAGS,
        _RATES,
        nested=(_TAG, _RATE),
        enums={"Kind": {"CASH": 0, "CARD": 1}},
    ),
)
MONEY = file(
    message("Money", member("currency_code", 1, "string"), member("units", 2, "int64"), member("nanos", 3, "int32")),
    message("Decimal", member("value", 1, "string")),
    name="google/type/all.proto", package="google.type",
)  # fmt: skip
DECIMAL = file(
    message("Decimal", member("value", 1, "bytes"), member("precision", 2, "uint32"), member("scale", 3, "int32")),
    name="confluent/type/decimal.proto", package="confluent.type",
)  # fmt: skip
PAYMENT = file(*TYPES, imports=(*WELL_KNOWN, MONEY.name, DECIMAL.name))
SET = descriptor_set(PAYMENT, MONEY, DECIMAL)  # the imports follow, and the well-known ones are missing
KIND = message_named(SET, "shop.Payment")


def put(name: str, value: Any) -> Callable[[Any], None]:
    """A filler that sets a member, also of an inner message with a dotted name."""

    def fill(instance: Any) -> None:
        *outer, last = name.split(".")
        for each in outer:
            instance = getattr(instance, each)
        setattr(instance, last, value)

    return fill


def extend(name: str, *values: Any) -> Callable[[Any], None]:
    return lambda instance: getattr(instance, name).extend(values)


def fill_list(instance: Any) -> None:
    for x in (5, 6, 7):
        instance.list.add(x=x).at.seconds = x


def fill_rates(instance: Any) -> None:
    instance.rates[-3].x = 8
    instance.tags["a.b"] = 0.1


def fill_decimal(instance: Any) -> None:
    instance.decimal.value, instance.decimal.scale = (-1250).to_bytes(2, "big", signed=True), 2


def fill_money(instance: Any) -> None:
    instance.money.currency_code, instance.money.units, instance.money.nanos = "EUR", -3, -500_000_000


def fill_time(seconds: int, nanos: int) -> Callable[[Any], None]:
    def fill(instance: Any) -> None:
        instance.at.seconds, instance.at.nanos = seconds, nanos

    return fill


def decoded(fill: Callable[[Any], None], *paths: Any) -> Any:
    return protobuf_decoder(KIND, required(*paths))(built(KIND, fill), 0)


VALUES = [
    ("id", put("id", -(2**63)), -(2**63)),
    ("unsigned", put("unsigned", 2**64 - 1), 2**64 - 1),
    ("name", put("name", "Zoë"), "Zoë"),
    ("name", put("id", 1), ""),
    ("ok", put("ok", True), True),
    ("raw", put("raw", b"\xff"), b"\xff"),
    ("wide", put("wide", 12.34), Decimal("12.34")),
    ("narrow", put("narrow", 12.34), Decimal("12.34")),
    ("kind", put("kind", 1), "CARD"),
    ("kind", put("kind", 9), 9),
    ("note", put("id", 1), None),
    ("note", put("note", ""), ""),
    ("at", put("id", 1), None),
    ("at", fill_time(1_709_208_000, 123_999_999), EpochMs(1_709_208_000_123)),
    ("at", fill_time(-1, 999_000_000), EpochMs(-1)),
    ("count", put("id", 1), None),
    ("count", put("count.value", 2**62), 2**62),
    ("share", put("share.value", 0.1), Decimal("0.1")),
    ("money", fill_money, Decimal("-3.500000000")),
    ("text", put("text.value", "1e999999999"), "1e999999999"),
    ("decimal", fill_decimal, Decimal("-12.50")),
    ("decimal", put("id", 1), None),
]


@pytest.mark.parametrize(("name", "fill", "expected"), VALUES, ids=[f"{row[0]}-{row[2]}" for row in VALUES])
def test_each_type_has_an_exact_value(name: str, fill: Callable[[Any], None], expected: object) -> None:
    value = decoded(fill, name)[name]
    assert (value, type(value)) == (expected, type(expected))


def test_a_member_alone_and_with_others_has_the_same_value() -> None:
    fill = put("id", 5)
    assert decoded(fill, "id") == {"id": 5}
    assert decoded(fill, "id", "name", "kind") == {"id": 5, "name": "", "kind": "CASH"}


def test_only_the_declared_places_are_read() -> None:
    def fill(instance: Any) -> None:
        instance.inner.x, instance.inner.at.seconds = 4, 3
        fill_list(instance)
        fill_rates(instance)
        fill_money(instance)
        instance.numbers.extend([1, 2, 3])

    paths = [
        ("inner", "at"), ("list", 1, "x"), ("list", 0, "at"), ("numbers", 1), ("tags", "a.b"), ("tags", "absent"),
        ("rates", "-3", "x"), ("money", "currency_code"),
    ]  # fmt: skip
    assert decoded(fill, *paths) == {
        "inner": {"at": EpochMs(3_000)},
        "list": [{"x": 5, "at": EpochMs(5_000)}, {"x": 6, "at": EpochMs(6_000)}],
        "numbers": [1, 2],
        "tags": {"a.b": Decimal("0.1")},
        "rates": {"-3": {"x": 8}},
        "money": {"currency_code": "EUR"},
    }


def test_what_is_not_set_is_null_or_empty() -> None:
    paths = [("inner", "at"), ("list", 1, "x"), ("floats", 0), ("tags", "a"), ("rates", "no number", "x")]
    assert decoded(put("id", 1), *paths) == {"inner": None, "list": [], "floats": [], "tags": {}, "rates": {}}


@pytest.mark.parametrize(
    "path",
    [("absent",), ("id", "x"), ("inner", "absent"), ("list", "x"), ("tags", 0), ("inner", 0), (0,), ("list", 0, "y")],
    ids=str,
)
def test_a_type_without_a_place_for_a_required_field_is_incompatible(path: Any) -> None:
    with pytest.raises(RecordRejected, match=r"incompatible_schema: shop\.Payment has no member for"):
        protobuf_decoder(KIND, required("id", path))
    assert protobuf_decoder(KIND, (*required("id"), *optional(path)))(b"", 0)["id"] == 0


def test_an_older_and_a_newer_type_are_read_by_the_numbers_of_their_members() -> None:
    newer = message_named(
        descriptor_set(file(message("P", member("id", 1, "int64"), member("n", 2, "string")))), "shop.P"
    )
    value = built(newer, lambda instance: (setattr(instance, "id", 7), setattr(instance, "n", "new")))
    older = message_named(descriptor_set(file(message("P", member("id", 1, "int64")))), "shop.P")
    assert protobuf_decoder(older, required("id"))(value, 0) == {"id": 7}
    other = message_named(descriptor_set(file(message("P", member("id", 1, "string")))), "shop.P")
    assert protobuf_decoder(other, required("id"))(value, 0) == {"id": ""}


def test_the_head_of_a_value_is_skipped() -> None:
    assert protobuf_decoder(KIND, required("id"))(b"\0\0\0\0\7\0" + built(KIND, put("id", 3)), 6) == {"id": 3}


def test_a_descriptor_set_that_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="no descriptor set"):
        message_named(b"\xff\xff", "shop.Payment")
    with pytest.raises(ValueError, match=r"no message type 'shop.Paymnt', but .*shop\.Payment"):
        message_named(SET, "shop.Paymnt")
    with pytest.raises(ValueError, match=r"imports 'google/type/all\.proto', which is missing"):
        message_named(descriptor_set(PAYMENT, DECIMAL), "shop.Payment")
    with pytest.raises(ValueError, match="inconsistent"):
        message_named(descriptor_set(file(message("A", member("a", 1, ".shop.Absent")))), "shop.A")
    with pytest.raises(ValueError, match="inconsistent"):
        message_named(descriptor_set(FileDescriptorProto(name="a", dependency=["a"])), "shop.A")


SOURCE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/type/money.proto";
import "common/other.proto";
message Payment {
  message Line { int64 units = 1; }
  string id = 1;
  google.protobuf.Timestamp at = 2;
  google.type.Money amount = 3;
  Other other = 4;
}
message Refund { string of = 1; }
"""
OTHER = 'syntax = "proto3"; package shop; message Other { int64 x = 1; }'
REGISTERED = RegisteredSchema("PROTOBUF", SOURCE, (NamedText("common/other.proto", OTHER),))


@pytest.mark.parametrize(
    ("positions", "name"), [((0,), "shop.Payment"), ((1,), "shop.Refund"), ((0, 0), "shop.Payment.Line")]
)
def test_a_source_of_the_registry_is_compiled(positions: tuple[int, ...], name: str) -> None:
    assert message_at(REGISTERED, positions).full_name == name


def test_values_of_a_compiled_source() -> None:
    kind = message_at(REGISTERED, (0,))

    def fill(instance: Any) -> None:
        instance.id, instance.amount.units, instance.at.seconds, instance.other.x = "p1", 5, 6, 7

    decode = protobuf_decoder(kind, required("id", "at", "amount", ("other", "x")))
    assert decode(built(kind, fill), 0) == {
        "id": "p1", "at": EpochMs(6_000), "amount": Decimal("5.000000000"), "other": {"x": 7},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "references", "fault"),
    [
        ("message {", (), "protoc cannot compile it: .*registered.proto"),
        ('syntax = "proto3"; import "absent.proto";', (), "protoc cannot compile it: .*absent.proto"),
        ('syntax = "proto3";', (NamedText("../x.proto", ""),), "no name of a source"),
        ('syntax = "proto3"; message A {}', (), r"no message type at the position \[1\]"),
    ],
    ids=["no source", "a missing import", "a path out of the folder", "no such position"],
)
def test_a_source_that_cannot_be_used(text: str, references: tuple[NamedText, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        message_at(RegisteredSchema("PROTOBUF", text, references), (1,))


EVERY_FIELD = optional(*(each.name for each in KIND.fields), ("list", 1, "x"), ("tags", "a"), ("rates", "1", "at"))


def whole() -> bytes:
    def fill(instance: Any) -> None:
        for change in (fill_list, fill_rates, fill_money, fill_decimal, fill_time(5, 6), extend("floats", 1.5)):
            change(instance)
        instance.id, instance.name, instance.count.value = 5, "Zoë", 7

    return built(KIND, fill)


def is_clean(tree: object) -> bool:
    return isinstance(tree, dict) or (isinstance(tree, RecordRejected) and tree.reason == "malformed_protobuf")


def test_truncated_bytes_are_a_shorter_message_or_malformed() -> None:
    decode, value = protobuf_decoder(KIND, EVERY_FIELD), whole()
    trees = [decode(value[:n], 0) for n in range(len(value) + 1)]
    assert all(map(is_clean, trees))
    assert sum(isinstance(tree, RecordRejected) for tree in trees) > len(value) / 2
    assert isinstance(trees[-1], dict)


@pytest.mark.parametrize("number", [13, 14], ids=["message", "list"])
def test_deeply_nested_bytes_are_malformed(number: int) -> None:
    value = b""
    for _ in range(200):
        value = b"\x1a" + bytes([len(value) & 0x7F | 0x80, len(value) >> 7]) + value
    head = bytes([number << 3 | 2]) + bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
    tree = protobuf_decoder(KIND, EVERY_FIELD)(head + value, 0)
    assert isinstance(tree, RecordRejected)
    assert tree.reason == "malformed_protobuf"


def test_a_wrong_scale_and_too_many_digits_are_malformed() -> None:
    for scale, digits in ((-1, b"\1"), (100_000, b"\1"), (0, b"\x7f" * 1_000)):

        def fill(instance: Any, scale: int = scale, digits: bytes = digits) -> None:
            instance.decimal.scale, instance.decimal.value = scale, digits

        assert decoded(fill, "decimal").reason == "malformed_protobuf"


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_malformed(value: bytes) -> None:
    assert is_clean(protobuf_decoder(KIND, EVERY_FIELD)(value, 0))


@given(st.data())
def test_changed_bytes_are_a_message_or_malformed(data: st.DataObject) -> None:
    value = bytearray(whole())
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    assert is_clean(protobuf_decoder(KIND, EVERY_FIELD)(bytes(value), 0))

"""Fields at declared places, in other units and forms, and in envelopes: both readers, and every bad record."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.codec.transactions.columns import quick_reader
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.codec.transactions.record import claimed_id, read_record
from fraud_rules.errors import RecordRejected
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from tests.support.records.corpus import APPEND_MS, raw_records

ID = {"name": "transactionId", "type": "long", "path": "meta.id"}
TIME = {"name": "eventTime", "type": "timestamp", "path": "meta.at"}
AMOUNT = {"name": "amount", "type": "decimal", "precision": 10, "scale": 2, "nullable": True}
T_MS = 1_700_000_000_000


def schema(*fields: dict[str, Any], plain: bool = False, **top: Any) -> TransactionSchema:
    first = [{**each, "path": None} if plain else each for each in (ID, TIME)]
    return TransactionSchema.parse({"fields": [*first, *fields], **top})


def members_with(identity: Any = None, time: Any = None, unwrap: str = "none") -> TransactionSchema:
    """The schema of id and time, with further keys of both."""
    fields = [{**ID, "path": None, **(identity or {})}, {**TIME, "path": None, **(time or {})}]
    return TransactionSchema.parse({"fields": fields, "unwrap": unwrap})


NESTED = schema(
    {**AMOUNT, "path": "payment.amount.value"},
    {"name": "payer", "type": "string", "path": 'payment."payer.id"', "nullable": True},
    {"name": "branch", "type": "long", "path": "branch", "nullable": True},
)

SHARED = schema(
    {"name": "payer", "type": "long", "path": "payer.account.id", "nullable": True},
    {"name": "payee", "type": "long", "path": "payee.account.id", "nullable": True},
)
"""The last members of three places have one name, and so have objects on the way to two of them."""


def decode(of: TransactionSchema, *values: bytes | None, append_ms: int = APPEND_MS) -> DecodeResult:
    return decode_transactions(raw_records(*values, append_ms=append_ms), of, RecordLimits())


def record(payment: Any = None, **more: Any) -> bytes:
    return json.dumps({"meta": {"id": 1, "at": T_MS}, "payment": payment, **more}).encode()


def only(of: TransactionSchema, value: bytes) -> dict[str, Any]:
    """The row of one accepted record without id and time. The careful reader must agree."""
    decoded = decode(of, value)
    assert decoded.rejects == []
    row = decoded.batch.row(0, of)
    assert (row.pop("transactionId"), row.pop("eventTime")) == (1, T_MS)
    careful = read_record(value, of)
    assert careful is not None
    for field, found in zip(of.fields[2:], careful[2:], strict=True):
        quick = decoded.batch.columns[field.name]
        valid = quick.valid is None or bool(quick.valid[0])
        number = int(quick.values[0])
        assert found == ((quick.dictionary[number] if quick.dictionary is not None else number) if valid else None)
    return {name: str(found) for name, found in row.items()}


def reason(of: TransactionSchema, value: bytes) -> str:
    """The reason for the rejection of one record. The quick reader must not be certain of it."""
    (rejected,) = decode(of, value).rejects
    assert rejected.detail.isprintable()
    assert quick_reader(of).read(raw_records(value), RecordLimits().max_bytes).doubtful == [0]
    return rejected.reason


PAYMENT = {"amount": {"value": 12.5, "currency": "EUR"}, "payer.id": "p-1", "unused": [{"amount": 1}, None]}


def test_values_come_from_their_places() -> None:
    assert only(NESTED, record(PAYMENT, branch=7)) == {"amount": "12.50", "payer": "p-1", "branch": "7"}


def test_records_in_usual_shapes_stay_on_the_quick_path() -> None:
    unused = {f"member{i}": {"id": i, "at": f"text {i}"} for i in range(30)}
    values = [record(PAYMENT, branch=7), record(PAYMENT, unused=unused), record(None), record({"amount": None})]
    assert quick_reader(NESTED).read(raw_records(*values), RecordLimits().max_bytes).doubtful == []


def test_records_whose_places_share_names_stay_on_the_quick_path() -> None:
    accounts = {"payer": {"account": {"id": 2}}, "payee": {"account": {"id": 3, "kind": "x"}}}
    values = [record(**accounts), record(payer={"account": {"id": 2}}), record(payer={"account": None})]
    assert quick_reader(SHARED).read(raw_records(*values), RecordLimits().max_bytes).doubtful == []
    twice = b'{"meta":{"id":1,"at":1},"payer":{"account":{"id":2}},"payee":{"account":{"id":3,"id":4}}}'
    assert reason(SHARED, twice) == "duplicate_field"
    instead = b'{"meta":{"id":1,"at":1},"payer":{"account":{"id":2,"id":3}},"payee":{"account":null}}'
    assert reason(SHARED, instead) == "duplicate_field"


@pytest.mark.parametrize(
    "value",
    [record(), record({}), record({"amount": None}), record({"amount": {}}), record({"amount": {"value": None}})],
)
def test_a_place_behind_a_null_or_an_absent_object_is_null(value: bytes) -> None:
    assert only(NESTED, value) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (record([]), "wrong_shape:amount"),
        (record(7), "wrong_shape:amount"),
        (record({"amount": [{"value": 1}]}), "wrong_shape:amount"),
        (record({"amount": {"value": {}}}), "wrong_type:amount"),
        (record({"amount": {"value": [1]}}), "wrong_type:amount"),
        (b'{"meta":null}', "missing_field:transactionId"),
        (b'{"meta":[1,2]}', "wrong_shape:transactionId"),
        (b'{"meta":{"id":1}}', "missing_field:eventTime"),
        (b'{"meta":{"id":1,"id":1,"at":1700000000000}}', "duplicate_field"),
        (b'{"meta":{"id":1,"at":1700000000000},"meta":{}}', "duplicate_field"),
        (b'{"meta":{"id":1,"\\u0069d":2,"at":1700000000000}}', "duplicate_field"),
        (b'{"meta":{"id":1,"at":1700000000000},"payment":{"amount":{"value":1,"value":null}}}', "duplicate_field"),
        (b'{"meta":{"id":1,"at":NaN}}', "malformed_json"),
        (b'{"meta":{"id":1,"at":1700000000000},"a/b":2,"a\\/b":3}', "duplicate_field"),
        (b"1,1700000000000", "missing_field:amount"),
    ],
)
def test_other_shapes_are_rejected_by_name(value: bytes, expected: str) -> None:
    of = NESTED if expected != "missing_field:amount" else schema({**AMOUNT, "nullable": False, "path": "x.y"})
    if b"a/b" in value:
        of = schema({"name": "other", "type": "long", "path": "a/b", "nullable": True})
    assert reason(of, value) == ("bad_csv" if value.startswith(b"1,") else expected)


def test_an_element_of_an_array_is_read_by_its_position() -> None:
    of = schema({**AMOUNT, "path": "lines[1].amount"})
    assert only(of, record(lines=[{"amount": 1}, {"amount": "2.50"}])) == {"amount": "2.50"}
    assert only(of, record(lines=[{"amount": 1}])) == only(of, record(lines=None)) == {}
    assert decode(of, record(lines={"1": {"amount": 1}})).rejects[0].reason == "wrong_shape:amount"


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ({"unit": "s"}, 1_700_000_000, T_MS),
        ({"unit": "s"}, 1_700_000_000.25, T_MS + 250),
        ({"unit": "s"}, -0.0001, -1),
        ({"unit": "us"}, 1_700_000_000_000_999, T_MS),
        ({"unit": "us"}, -1, -1),
        ({"unit": "ns"}, 1_700_000_000_000_999_999, T_MS),
        ({"unit": "ms"}, T_MS, T_MS),
        ({"unit": "iso8601"}, "2023-11-14T22:13:20Z", T_MS),
        ({"zone": "Europe/Berlin"}, "2023-11-14T23:13:20", T_MS),
        ({"zone": "Europe/Berlin"}, "2023-11-14T22:13:20Z", T_MS),
        ({"zone": "Asia/Kolkata", "unit": "iso8601"}, "2023-11-15 03:43:20", T_MS),
        ({"zone": "Europe/Berlin"}, "2023-10-29T02:30:00", 1_698_539_400_000),
        ({"zone": "Europe/Berlin"}, "2023-03-26T02:30:00", 1_679_794_200_000),
        ({"unit": "s", "written_as": "text"}, "1700000000", T_MS),
        ({"written_as": "text"}, "1700000000000", T_MS),
        ({"written_as": "text"}, "2023-11-14T22:13:20Z", T_MS),
    ],
)
def test_times_in_other_units_and_zones(declared: dict[str, str], value: Any, expected: int) -> None:
    of = schema({"name": "seen", "type": "timestamp", "nullable": True, **declared})
    assert only(of, record(seen=value)) == {"seen": str(expected)}
    assert only(of, record(seen=None)) == {}


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ({"unit": "s"}, "2023-11-14T22:13:20Z", "wrong_type"),
        ({"unit": "s"}, "1700000000", "wrong_type"),
        ({"unit": "s"}, T_MS, "out_of_range"),
        ({"unit": "ns"}, 10**40, "out_of_range"),
        ({"unit": "iso8601"}, T_MS, "wrong_type"),
        ({"unit": "iso8601"}, "14.11.2023", "bad_timestamp"),
        ({"unit": "s", "written_as": "text"}, 1_700_000_000, "wrong_type"),
        ({"unit": "s", "written_as": "text"}, "1" * 18, "out_of_range"),
        ({"unit": "us", "written_as": "text"}, "9" * 18, "out_of_range"),
        ({"zone": "Europe/Berlin"}, "0001-01-01T00:10:00", "bad_timestamp"),
    ],
)
def test_times_of_another_form_are_rejected(declared: dict[str, str], value: Any, expected: str) -> None:
    of = schema({"name": "seen", "type": "timestamp", "nullable": True, **declared})
    assert reason(of, record(seen=value)) == f"{expected}:seen"


@pytest.mark.parametrize(
    ("unit", "value", "hint"),
    [
        ("s", T_MS, "1700000000000 looks like milliseconds: set `unit: ms`"),
        ("s", 1_700_000_000_000_000, "looks like microseconds: set `unit: us`"),
        ("ms", 1_700_000_000, "1700000000 looks like seconds: set `unit: s`"),
        ("us", T_MS, "its number looks like milliseconds: set `unit: ms`"),
        ("us", 1_700_000_000_123, "its number looks like milliseconds: set `unit: ms`"),
        ("us", 1_700_000_000_000_000_000, "looks like nanoseconds: set `unit: ns`"),
        ("ns", 1_700_000_000_000_000, "its number looks like microseconds: set `unit: us`"),
        ("us", 17, ""),
        ("iso8601", "1970-01-20T16:13:20Z", ""),
    ],
)
def test_a_rejected_time_names_the_unit_that_would_suit_it(unit: str, value: Any, hint: str) -> None:
    of = members_with(time={"unit": unit})
    (reject,) = decode(of, record(transactionId=1, eventTime=value)).rejects
    assert hint in reject.detail
    assert ("looks like" in reject.detail) is bool(hint)


@pytest.mark.parametrize(
    ("unwrap", "place", "value", "expected"),
    [
        ("none", {}, {"transactionId": 7}, 7),
        ("none", {}, {"transactionId": "a"}, "a"),
        ("none", {}, {"transactionId": None}, None),
        ("none", {}, {"transactionId": [7]}, None),
        ("none", {}, {"id": 7}, None),
        ("none", {"path": "meta.id"}, {"meta": {"id": 7}}, 7),
        ("none", {"path": "meta.id"}, {"meta": 7}, None),
        ("none", {"aliases": ["id"]}, {"id": 7}, 7),
        ("none", {"from": "key"}, {"transactionId": 7}, None),
        ("connect", {}, {"payload": {"transactionId": 7}}, 7),
        ("connect", {}, {"transactionId": 7}, None),
        ("debezium", {}, {"op": "c", "after": {"transactionId": 7}}, 7),
        ("cloudevents", {"path": "meta.id"}, {"specversion": "1.0", "data": {"meta": {"id": 7}}}, 7),
    ],
)
def test_the_id_of_a_rejected_record_is_read_at_its_place(unwrap: str, place: Any, value: Any, expected: Any) -> None:
    of = members_with(place, unwrap=unwrap)
    assert claimed_id(json.dumps(value).encode(), of) == expected


def test_a_record_without_members_claims_no_id() -> None:
    assert [claimed_id(each, members_with()) for each in (None, b"", b"1,2", b"[1]", b"{", b"{\xff}")] == [None] * 6


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({**AMOUNT, "scaled": True}, 1250, "12.50"),
        ({**AMOUNT, "scaled": True}, "-1250", "-12.50"),
        ({**AMOUNT, "scaled": True}, 1.25e3, "12.50"),
        ({**AMOUNT, "written_as": "base64"}, "BOI=", "12.50"),
        ({**AMOUNT, "written_as": "base64"}, "/w==", "-0.01"),
        ({**AMOUNT, "written_as": "base64"}, "1234", "-26588.24"),
        ({"name": "f", "type": "long", "written_as": "text", "nullable": True}, "-17", "-17"),
        ({"name": "f", "type": "long", "written_as": "text", "nullable": True}, "9223372036854775807", str(2**63 - 1)),
        ({"name": "f", "type": "string", "written_as": "number", "nullable": True}, 4711, "4711"),
        ({"name": "f", "type": "string", "written_as": "number", "nullable": True}, 10**30, str(10**30)),
        ({"name": "f", "type": "boolean", "nullable": True}, True, "True"),
        ({"name": "f", "type": "boolean", "nullable": True}, False, "False"),
        ({"name": "f", "type": "boolean", "written_as": "text", "nullable": True}, "true", "True"),
    ],
)
def test_values_in_other_forms(field: dict[str, Any], value: Any, expected: str) -> None:
    of = schema(field)
    assert only(of, record(**{field["name"]: value})) == {field["name"]: expected}
    assert only(of, record()) == only(of, record(**{field["name"]: None})) == {}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({**AMOUNT, "scaled": True}, 12.5, "does_not_fit"),
        ({**AMOUNT, "scaled": True}, 10**10, "does_not_fit"),
        ({**AMOUNT, "written_as": "base64"}, 12.5, "wrong_type"),
        ({**AMOUNT, "written_as": "base64"}, "12.50", "wrong_type"),
        ({**AMOUNT, "written_as": "base64"}, "EjRWeJo=", "does_not_fit"),
        ({"name": "f", "type": "long", "written_as": "text"}, 17, "wrong_type"),
        ({"name": "f", "type": "long", "written_as": "text"}, "1.0", "wrong_type"),
        ({"name": "f", "type": "long", "written_as": "text"}, "\uff11", "wrong_type"),
        ({"name": "f", "type": "string", "written_as": "number"}, "x", "wrong_type"),
        ({"name": "f", "type": "string", "written_as": "number"}, 1.0, "wrong_type"),
        ({"name": "f", "type": "boolean"}, "true", "wrong_type"),
        ({"name": "f", "type": "boolean"}, 1, "wrong_type"),
        ({"name": "f", "type": "boolean", "written_as": "text"}, True, "wrong_type"),
        ({"name": "f", "type": "boolean", "written_as": "text"}, "TRUE", "wrong_type"),
    ],
)
def test_values_of_another_form_are_rejected(field: dict[str, Any], value: Any, expected: str) -> None:
    assert reason(schema(field), record(**{field["name"]: value})) == f"{expected}:{field['name']}"


ROW = {"transactionId": 1, "eventTime": T_MS, "amount": 12.5}
ENVELOPES = {
    "connect": {"schema": {"type": "struct", "fields": [{"field": "amount"}]}, "payload": ROW},
    "debezium": {"before": None, "after": ROW, "op": "c", "source": {"table": "payments"}, "ts_ms": 5},
    "cloudevents": {"specversion": "1.0", "id": "e-1", "source": "/pay", "type": "payment", "data": ROW},
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_the_payment_is_taken_out_of_its_envelope(name: str) -> None:
    of = schema(AMOUNT, plain=True, unwrap=name)
    value = json.dumps(ENVELOPES[name]).encode()
    assert only(of, value) == {"amount": "12.50"}
    assert quick_reader(of).read(raw_records(*[value] * 3), RecordLimits().max_bytes).doubtful == []


def test_a_change_of_debezium_may_be_inside_the_envelope_of_kafka_connect() -> None:
    of = schema(AMOUNT, plain=True, unwrap="debezium")
    value = json.dumps({"schema": {}, "payload": ENVELOPES["debezium"]}).encode()
    assert only(of, value) == {"amount": "12.50"}
    assert quick_reader(of).read(raw_records(value, json.dumps(ENVELOPES["debezium"]).encode()), 10_000).doubtful == [1]


@pytest.mark.parametrize("operation", ["r", "u", "d", "t", "m"])
def test_other_changes_of_a_table_are_counted_and_not_evaluated(operation: str) -> None:
    of = schema(AMOUNT, plain=True, unwrap="debezium")
    change = {**ENVELOPES["debezium"], "op": operation}
    values = [json.dumps(each).encode() for each in (change, {"payload": change}, {"schema": {}, "payload": None})]
    decoded = decode(of, *values, None)
    assert (len(decoded.batch), decoded.rejects, decoded.ignored) == (0, [], 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connect", {"schema": {}}),
        ("connect", ROW),
        ("debezium", ROW),
        ("debezium", {"op": "x", "after": ROW}),
        ("debezium", {"op": "c"}),
        ("debezium", {"payload": []}),
        ("cloudevents", {"data": ROW}),
        ("cloudevents", {"specversion": "1.0"}),
        ("cloudevents", {"specversion": "1.0", "data": ROW, "data_base64": "###"}),
    ],
)
def test_a_record_without_its_envelope_is_rejected(name: str, value: Any) -> None:
    assert reason(schema(AMOUNT, plain=True, unwrap=name), json.dumps(value).encode()) == "bad_envelope"


def test_data_of_a_cloud_event_may_be_in_base64() -> None:
    of = schema(AMOUNT, plain=True, unwrap="cloudevents")
    event = {"specversion": "1.0", "data_base64": "eyJ0cmFuc2FjdGlvbklkIjoxLCJldmVudFRpbWUiOjE3MDAwMDAwMDAwMDB9"}
    assert only(of, json.dumps(event).encode()) == {}


PIECES = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b'"id":2',
    b',"op":"u"',
    b"\\u0069",
    b'"meta":',
    b'"account":{"id":5},',
    b"1",
)


@pytest.mark.parametrize("name", ["none", "shared", *ENVELOPES])
def test_both_readers_agree_on_mutated_records(name: str) -> None:
    rng = random.Random(7)
    of = {"none": NESTED, "shared": SHARED}.get(name) or schema(AMOUNT, plain=True, unwrap=name)
    seeds = [record(PAYMENT, branch=7), record({"amount": None})]
    if name == "shared":
        account = {"account": {"id": 2}}
        seeds = [record(payer=account, payee={"account": {"id": 3}}), record(payer=account, payee={"account": None})]
    elif name != "none":
        envelope = ENVELOPES[name]
        seeds = [json.dumps(each).encode() for each in (envelope, {"payload": envelope}, {**envelope, "extra": ROW})]
    certain = 0
    for _ in range(1_500):
        value = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            at, to = sorted((rng.randint(0, len(value)), rng.randint(0, len(value))))
            match rng.randrange(3):
                case 0:
                    value[at:at] = rng.choice(PIECES)
                case 1:
                    value[at : at + rng.randint(1, 4)] = b""
                case _:
                    value[to:to] = value[at:to]
        certain += _agrees(of, bytes(value))
    assert certain > 150


def _agrees(of: TransactionSchema, value: bytes) -> int:
    """Check that the careful reader accepts a record of which the quick reader is certain, with the same values."""
    reading = quick_reader(of).read(raw_records(value), 10_000)
    if reading.doubtful:
        try:
            read_record(value, of)
        except RecordRejected as rejected:
            assert rejected.reason != "internal_error"
        return 0
    careful = read_record(value, of)
    assert careful is not None, value
    for field, expected in zip(of.fields, careful, strict=True):
        column = reading.columns[field.name]
        found: Any = int(column.values[0])
        if column.dictionary is not None:
            found = column.dictionary[found] if column.dictionary else None
        assert expected == (found if column.valid is None or column.valid[0] else None), value
    return 1


@pytest.mark.parametrize(
    ("unwrap", "field", "value", "expected"),
    [
        ("none", {"type": "long"}, 17, b"17"),
        ("connect", {"type": "long", "path": "a.b", "written_as": "text"}, 17, b"17"),
        ("none", {"type": "string"}, "ab1", b"ab1"),
        ("none", {"type": "string"}, "a b", b""),
        ("none", {"type": "timestamp"}, T_MS, b""),
        ("none", {"type": "boolean"}, True, b""),
        ("none", {"type": "decimal", "precision": 4}, 17, b""),
        ("none", {"type": "long", "from": "key"}, 17, b"17"),
        ("none", {"type": "long", "from": "header.a"}, 17, b""),
        ("cloudevents", {"type": "long"}, 17, b""),
    ],
)
def test_a_search_looks_for_bytes_that_all_records_with_the_value_have(
    unwrap: str, field: dict[str, Any], value: Any, expected: bytes
) -> None:
    of = schema({"name": "found", **field}, plain=True, unwrap=unwrap)
    assert Needle.of(of, "found", value).text == expected

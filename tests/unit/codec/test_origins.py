"""Fields of the record's key, of headers and of the topic's name, through both readers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.codec.transactions.columns import quick_reader
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.codec.transactions.raw import MAX_TRACE_BYTES, Headers, RawTransactions, trace_headers
from fraud_rules.codec.transactions.record import read_record
from fraud_rules.errors import ConfigError
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from tests.support.records.corpus import raw_records

T_MS = 1_700_000_000_000
ID = {"name": "transactionId", "type": "long"}
TIME = {"name": "eventTime", "type": "timestamp"}
AMOUNT = {"type": "decimal", "precision": 6, "scale": 2}
VALUE = b'{"transactionId":1,"eventTime":1700000000000}'


def schema(**declared: Any) -> TransactionSchema:
    """A schema with a nullable field `cell`, declared like this. It comes from a key by default."""
    return TransactionSchema.parse(
        {"fields": [ID, TIME, {"name": "cell", "nullable": True, "from": "key", **declared}]}
    )


def decode(of: TransactionSchema, raw: RawTransactions) -> DecodeResult:
    return decode_transactions(raw, of, RecordLimits())


def cell(of: TransactionSchema, key: bytes | None, headers: Headers = (), value: bytes = VALUE) -> str | None:
    """The value of the field `cell` in one record, or the reason for its rejection. Both readers must agree."""
    raw = raw_records(value, topic="payments", keys=[key], headers=[headers])
    decoded = decode(of, raw)
    quick = quick_reader(of).read(raw, RecordLimits().max_bytes)
    if decoded.rejects:
        assert quick.doubtful == [0]
        (rejected,) = decoded.rejects
        assert rejected.detail.isprintable()
        return rejected.reason
    careful = read_record(value, of, cells={each.name: raw.cells(each.source, [0])[0] for each in of.beside_value})
    assert careful is not None
    (code,), column = decoded.batch.columns["cell"].values.tolist(), decoded.batch.columns["cell"]
    found = column.dictionary[code] if column.dictionary is not None and careful[2] is not None else code
    assert careful[2] in (None, found)
    row = decoded.batch.row(0, of).get("cell")
    return None if row is None else str(row)


@pytest.mark.parametrize(
    ("declared", "key", "expected"),
    [
        ({"type": "long"}, b"12", "12"),
        ({"type": "long"}, b"-9223372036854775808", "-9223372036854775808"),
        ({"type": "long"}, b"9223372036854775808", "out_of_range:cell"),
        ({"type": "long"}, b"1.0", "wrong_type:cell"),
        ({"type": "long"}, b"012", "wrong_type:cell"),
        ({"type": "long"}, b" 12", "wrong_type:cell"),
        ({"type": "long"}, b'"12"', "wrong_type:cell"),
        ({"type": "string"}, b"12", "12"),
        ({"type": "string"}, "Zoë".encode(), "Zoë"),
        ({"type": "string", "normalize": ["trim"]}, b" a ", "a"),
        ({"type": "string"}, b"a\0b", "bad_text:cell"),
        ({"type": "string"}, b"x" * 257, "bad_text:cell"),
        ({"type": "string"}, b"\xff\x00\x01", "invalid_utf8:cell"),
        ({"type": "long"}, b"\xff", "invalid_utf8:cell"),
        ({"type": "boolean"}, b"true", "True"),
        ({"type": "boolean"}, b"1", "wrong_type:cell"),
        (AMOUNT, b"12.5", "12.50"),
        (AMOUNT, b"1e1", "10.00"),
        (AMOUNT, b"12.555", "does_not_fit:cell"),
        (AMOUNT, b"NaN", "wrong_type:cell"),
        ({**AMOUNT, "scaled": True}, b"1250", "12.50"),
        ({"type": "timestamp"}, b"1700000000000", str(T_MS)),
        ({"type": "timestamp"}, b"2023-11-14T22:13:20Z", str(T_MS)),
        ({"type": "timestamp", "unit": "s"}, b"1700000000", str(T_MS)),
        ({"type": "timestamp", "unit": "s"}, b"2023-11-14T22:13:20Z", "wrong_type:cell"),
        ({"type": "timestamp", "zone": "Europe/Berlin"}, b"2023-11-14 23:13:20", str(T_MS)),
        ({"type": "timestamp"}, b"yesterday", "bad_timestamp:cell"),
    ],
)
def test_a_key_converts_like_a_cell(declared: dict[str, Any], key: bytes, expected: str) -> None:
    assert cell(schema(**declared), key) == expected
    assert cell(schema(**declared, **{"from": "header.x"}), None, [("x", key)]) == expected


@pytest.mark.parametrize("key", [None, b""])
def test_an_absent_or_empty_key_is_null(key: bytes | None) -> None:
    assert cell(schema(type="long"), key) is None
    assert cell(schema(type="string"), key) is None
    assert cell(schema(type="long", nullable=False), key) == "missing_field:cell"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("other", b"1")], None),
        ([("Channel", b"1")], None),
        ([("channel", None)], None),
        ([("channel", b"1"), ("other", b"2")], "1"),
        ([("channel", b"1"), ("channel", b"2")], "2"),
        ([("channel", b"1"), ("channel", None)], None),
        ([("channel", b"x"), ("channel", b"2")], "2"),
    ],
)
def test_the_last_header_of_the_name_counts(headers: Headers, expected: str | None) -> None:
    assert cell(schema(type="long", **{"from": "header.channel"}), None, headers) == expected


def test_a_header_may_have_dots_in_its_name() -> None:
    assert cell(schema(type="string", **{"from": "header.ce.source"}), None, [("ce.source", b"pos")]) == "pos"


def test_the_topic_is_a_text() -> None:
    assert cell(schema(type="string", **{"from": "topic"}), None) == "payments"
    assert cell(schema(type="long", **{"from": "topic"}), None) == "wrong_type:cell"


def test_a_member_of_the_fields_name_in_the_value_is_not_read() -> None:
    value = b'{"transactionId":1,"eventTime":1700000000000,"cell":3,"cell":4}'
    assert cell(schema(type="long"), b"2", value=value) == "2"


def test_a_csv_line_has_only_the_fields_of_the_value() -> None:
    of = TransactionSchema.parse({"fields": [{**ID, "from": "key"}, TIME, {"name": "note", "type": "string"}]})
    lines = b"1700000000000,a", b'1700000000000,"a"', b"7,1700000000000,a"
    decoded = decode(of, raw_records(*lines, keys=[b"7"] * 3))
    assert [decoded.batch.row(i, of)["transactionId"] for i in range(2)] == [7, 7]
    assert [(each.index, each.reason) for each in decoded.rejects] == [(2, "bad_csv")]


@pytest.mark.parametrize(
    ("unwrap", "value"),
    [
        ("connect", {"payload": {"eventTime": T_MS}}),
        ("debezium", {"op": "c", "after": {"eventTime": T_MS}}),
        ("cloudevents", {"specversion": "1.0", "data": {"eventTime": T_MS}}),
    ],
)
def test_the_key_is_beside_an_envelope(unwrap: str, value: Any) -> None:
    of = TransactionSchema.parse({"unwrap": unwrap, "fields": [{**ID, "from": "key"}, TIME]})
    decoded = decode(of, raw_records(json.dumps(value).encode(), None, keys=[b"5", b"6"]))
    assert (decoded.batch.row(0, of)["transactionId"], decoded.ignored, decoded.rejects) == (5, 1, [])


def test_a_bad_key_rejects_only_its_own_record() -> None:
    of = schema(type="long", **{"from": "key"})
    decoded = decode(of, raw_records(VALUE, VALUE, b"{", VALUE, keys=[b"1", b"x", b"2", None]))
    assert decoded.batch.columns["cell"].values.tolist() == [1, 0]
    assert decoded.batch.offset.tolist() == [0, 3]
    assert [each.reason for each in decoded.rejects] == ["wrong_type:cell", "malformed_json"]


def test_all_fields_may_be_beside_the_value() -> None:
    of = TransactionSchema.parse({"fields": [{**ID, "from": "key"}, {**TIME, "from": "header.at"}]})
    decoded = decode(of, raw_records(b"{}", b"null", b"{", keys=[b"1"] * 3, headers=[[("at", b"1700000000000")]] * 3))
    assert (decoded.batch.row(0, of)["eventTime"], len(decoded.rejects)) == (T_MS, 2)


def test_a_reader_without_the_keys_fails_by_name() -> None:
    for origin in ("key", "header.x", "topic"):
        with pytest.raises(ValueError, match=f"without their {origin[:3]}"):
            decode(schema(type="string", **{"from": origin}), raw_records(VALUE))


@pytest.mark.parametrize("form", ["text", "number"])
def test_a_form_of_json_is_not_for_keys(form: str) -> None:
    kind = "long" if form == "text" else "string"
    with pytest.raises(ConfigError, match="written_as"):
        schema(type=kind, written_as=form)


def test_the_schema_says_what_it_reads() -> None:
    of = schema(type="string", **{"from": "header.x"})
    assert (of.reads_keys, of.reads_headers) == (False, True)
    assert ([each.name for each in of.in_value], len(of.beside_value)) == (["transactionId", "eventTime"], 1)
    assert TransactionSchema.parse({"fields": [ID, TIME]}).beside_value == ()


@pytest.mark.parametrize(
    ("declared", "value", "has_needle"),
    [
        ({"type": "long"}, 12, True),
        ({"type": "string"}, "a1", True),
        ({"type": "string"}, "a-1", False),
        ({"type": "timestamp"}, T_MS, False),
        ({"type": "long", "from": "header.x"}, 12, False),
        ({"type": "long", "from": "value"}, 12, True),
    ],
)
def test_a_byte_search_finds_each_record_with_the_value(
    declared: dict[str, Any], value: object, has_needle: bool
) -> None:
    of = schema(**declared)
    needle = Needle.of(of, "cell", value)
    text = str(value).encode()
    key, content = (b"7", b'{"cell":%b}' % text) if declared.get("from") == "value" else (text, b"{}")
    assert needle.is_in(key, content)
    assert needle.is_in(b"7", b"{}") is not has_needle


def test_the_value_of_a_cloud_event_is_not_searched() -> None:
    of = TransactionSchema.parse({"unwrap": "cloudevents", "fields": [ID, TIME]})
    assert Needle.of(of, "transactionId", 5).is_in(None, b"eyJ0")


PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ([], []),
        ([("traceparent", PARENT), ("tracestate", b"a=1"), ("payer", b"7")], ["traceparent", "tracestate"]),
        ([("traceparent", b"x"), ("traceparent", PARENT)], ["traceparent"]),
        ([("traceparent", PARENT), ("traceparent", None)], []),
        ([("tracestate", b"a=1"), ("correlation-id", b"7")], ["correlation-id"]),
        ([("traceparent", PARENT.upper())], []),
        ([("traceparent", PARENT + b"-x")], []),
        ([("traceparent", b"ff" + PARENT[2:])], []),
        ([("traceparent", PARENT.replace(b"00f067aa0ba902b7", b"0" * 16))], []),
        ([("traceparent", PARENT), ("tracestate", b"x" * (MAX_TRACE_BYTES + 1))], ["traceparent"]),
        ([("x-correlation-id", b"x" * (MAX_TRACE_BYTES + 1))], []),
    ],
)
def test_only_a_valid_trace_is_carried(headers: Headers, kept: list[str]) -> None:
    assert list(trace_headers(headers)) == kept

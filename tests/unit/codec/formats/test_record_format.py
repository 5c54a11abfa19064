"""Formats as the settings of a schema choose them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from fraud_rules.codec.formats import protobuf_schema
from fraud_rules.codec.formats import record_format as module
from fraud_rules.codec.formats.places import FieldPlaces, places_of
from fraud_rules.codec.formats.record_format import RecordFormat, record_format, record_format_of
from fraud_rules.codec.formats.schemas import RegisteredSchema, schema_source
from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.errors import ConfigError, RecordRejected, Stalled
from fraud_rules.kafka.registry.client import RegistryClient
from fraud_rules.model.declared.field_source import FieldSource, FieldType, Origin
from fraud_rules.model.declared.record_format import FormatName, FormatSettings, RegistrySettings
from fraud_rules.model.schema import Envelope, Field, TransactionSchema
from tests.support.formats.places import optional, required
from tests.support.formats.protobuf_types import descriptor_set, file, member, message
from tests.support.formats.sources import MemoryRegistry

REGISTRY = RegistrySettings("http://registry")
FIELDS = (
    Field("transactionId", FieldType.LONG, aliases=("id",)),
    Field("eventTime", FieldType.TIMESTAMP),
    Field("note", FieldType.STRING, nullable=True),
)
AVRO = {
    "type": "record", "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "eventTime", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}  # fmt: skip
DATUM = io.BytesIO()
fastavro.schemaless_writer(DATUM, fastavro.parse_schema(AVRO), {"id": 5, "eventTime": 1_700_000_000_000_999})
RECORD = {"id": 5, "eventTime": EpochMs(1_700_000_000_000)}
MESSAGE = message("Payment", member("transactionId", 1, "int64"), member("eventTime", 2, "int64"))
SET = descriptor_set(
    file(MESSAGE, message("Refund", member("transactionId", 1, "int64"), member("eventTime", 2, "int64")))
)


def reasons(trees: list[Any]) -> list[str | None]:
    return [tree.reason if isinstance(tree, RecordRejected) else None for tree in trees]


def with_registry(settings: FormatSettings, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch) -> RecordFormat:
    monkeypatch.setattr(module, "schema_source", lambda _: registry)
    return record_format_of.__wrapped__(settings, places_of(TransactionSchema(FIELDS)))


def test_the_places_of_a_schema_are_its_names_and_aliases() -> None:
    assert places_of(TransactionSchema(FIELDS)) == (
        FieldPlaces("transactionId", (("transactionId",), ("id",)), required=True),
        FieldPlaces("eventTime", (("eventTime",),), required=True),
        FieldPlaces("note", (("note",),), required=False),
    )


def test_the_places_of_declared_paths_and_of_an_envelope() -> None:
    fields = (
        Field("transactionId", FieldType.LONG, source=FieldSource(("payment", "id"))),
        Field("topic", FieldType.STRING, source=FieldSource(origin=Origin.TOPIC)),
    )
    (place,) = places_of(TransactionSchema(fields))
    assert place.paths == (("payment", "id"),)
    (op, place) = places_of(TransactionSchema(fields, Envelope.DEBEZIUM))
    assert op.paths == (("op",), ("payload", "op"))
    assert place.paths == (("after", "payment", "id"), ("payload", "after", "payment", "id"))
    assert places_of(TransactionSchema(fields, Envelope.CONNECT))[0].paths == (("payload", "payment", "id"),)
    assert [each.name for each in places_of(TransactionSchema(fields, Envelope.CLOUDEVENTS))] == [
        "specversion", "data_base64", "transactionId",
    ]  # fmt: skip


def test_a_schema_file_of_avro() -> None:
    settings = FormatSettings(FormatName.AVRO, None, json.dumps(AVRO).encode())
    schema = TransactionSchema(FIELDS, format=settings)
    read = record_format(schema)
    assert read is record_format(TransactionSchema(FIELDS, format=settings))
    assert read.trees([DATUM.getvalue(), None]) == [RECORD, None]
    assert reasons(read.trees([b"", DATUM.getvalue()[:3]])) == ["malformed_avro", "malformed_avro"]


def test_a_schema_file_of_protobuf() -> None:
    read = record_format(
        TransactionSchema(FIELDS, format=FormatSettings(FormatName.PROTOBUF, None, SET, "shop.Refund"))
    )
    assert read.trees([b"\x08\x05", None, b""]) == [
        {"transactionId": 5, "eventTime": 0}, None, {"transactionId": 0, "eventTime": 0},
    ]  # fmt: skip
    assert reasons(read.trees([b"\x08"])) == ["malformed_protobuf"]


def test_avro_of_a_registry_with_the_defaults_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": "string", "default": "none"}]}
    registry = MemoryRegistry({1: RegisteredSchema("AVRO", json.dumps(AVRO)), 2: RegisteredSchema("PROTOBUF", "")})
    settings = FormatSettings(FormatName.AVRO, REGISTRY, json.dumps(newer).encode())
    read = with_registry(settings, registry, monkeypatch)
    values = [b"\0\0\0\0" + bytes([key]) + DATUM.getvalue() for key in (1, 2, 3)]
    trees = read.trees([*values, b"{}", b"\0\0\0\0\1"])
    assert trees[0] == {**RECORD, "note": "none"}
    assert reasons(trees[1:]) == ["incompatible_schema", "unknown_schema_id", "wrong_magic_byte", "malformed_avro"]


def test_protobuf_of_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """syntax = "proto3"; package shop; message Other { string x = 1; }
        message Payment { int64 transactionId = 1; int64 eventTime = 2; }"""
    registry = MemoryRegistry({1: RegisteredSchema("PROTOBUF", source), 2: RegisteredSchema("PROTOBUF", "message {")})
    read = with_registry(FormatSettings(FormatName.PROTOBUF, REGISTRY), registry, monkeypatch)
    trees = read.trees([b"\0\0\0\0\1\2\2\x08\x05", b"\0\0\0\0\1\0\x08\x05", b"\0\0\0\0\2\0", b"\0\0\0\0\1\2\2\x08"])
    assert trees[0] == {"transactionId": 5, "eventTime": 0}
    assert reasons(trees[1:]) == ["incompatible_schema", "incompatible_schema", "malformed_protobuf"]


def test_json_schema_needs_no_registry() -> None:
    read = record_format(TransactionSchema(FIELDS, format=FormatSettings(FormatName.JSON_SCHEMA, REGISTRY)))
    assert read.trees([b"\0\0\0\0\7{}", None]) == [b"{}", None]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (FormatSettings(FormatName.AVRO, None, b"{"), "the schema file cannot be used: no Avro schema"),
        (FormatSettings(FormatName.AVRO, None, b"\xff"), "the schema file cannot be used"),
        (FormatSettings(FormatName.AVRO, None, b'"string"'), "no member for transactionId, eventTime, not nullable"),
        (FormatSettings(FormatName.AVRO, REGISTRY, b"{"), "the schema file cannot be used: no Avro schema"),
        (FormatSettings(FormatName.PROTOBUF, None, b"\xff", "shop.Payment"), "no descriptor set"),
        (FormatSettings(FormatName.PROTOBUF, None, SET, "shop.Absent"), "no message type 'shop.Absent'"),
        (FormatSettings(FormatName.CSV), "records of the format csv have no schema"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_settings_that_cannot_be_used(settings: FormatSettings, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        record_format(TransactionSchema(FIELDS, format=settings))


def test_the_registry_is_that_of_the_kafka_layer() -> None:
    assert isinstance(schema_source(REGISTRY), RegistryClient)


def test_a_format_knows_only_the_declared_fields() -> None:
    settings = FormatSettings(FormatName.PROTOBUF, None, SET, "shop.Payment")
    read = record_format_of(settings, (*required("transactionId"), *optional("absent")))
    assert read.trees([b"\x08\x07\x10\x09"]) == [{"transactionId": 7}]


def test_a_host_too_slow_for_protoc_rejects_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected schema would send all of its payments to quarantine for the life of the process."""
    source = 'syntax = "proto3"; message Payment { int64 id = 1; }'
    registry = MemoryRegistry({7: RegisteredSchema("PROTOBUF", source)})
    monkeypatch.setattr(module, "schema_source", lambda settings: registry)
    read = record_format_of.__wrapped__(FormatSettings(FormatName.PROTOBUF, REGISTRY), optional("id"))
    record = b"\0\0\0\0\7\0" + b"\x08\x05"
    with monkeypatch.context() as slow:
        slow.setattr(protobuf_schema, "_PROTOC_LIMIT_S", 0.001)
        with pytest.raises(Stalled):
            read.trees([record])
    assert read.trees([record]) == [{"id": 5}], "the repeated batch reads it"

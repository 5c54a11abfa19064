"""Records of a real schema registry.

The test that kills it and starts it again is long: `unit/kafka/test_registry_client` has one that does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fraud_rules.codec.formats import record_format
from fraud_rules.codec.formats.protobuf_schema import message_at
from fraud_rules.codec.formats.record_format import RecordFormat, record_format_of
from fraud_rules.codec.formats.schemas import NamedText, RegisteredSchema
from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.discovery import registered
from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.discovery.schema_file import schema_text
from fraud_rules.discovery.understanding import decode_sample, understand
from fraud_rules.errors import RecordRejected, RegistryUnavailable
from fraud_rules.kafka.registry.client import RegistryClient
from fraud_rules.kafka.registry.folder import SchemaFolder
from fraud_rules.logs.output_schemas import subjects
from fraud_rules.model.declared.record_format import FormatName, FormatSettings, RegistrySettings
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.secret import Secrets
from fraud_rules.runtime.yaml_file import parse_yaml
from tests.support.formats.places import optional, required
from tests.support.formats.protobuf_types import built
from tests.support.formats.schema_registry import SchemaRegistry, schema_registry
from tests.support.records.foreign_shapes import payments

pytestmark = pytest.mark.integration

TOPIC_ROLES = ()


def payment(*members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "shop.Payment", "fields": [{"name": "id", "type": "long"}, *members]}


FIRST = payment({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})
SECOND = payment(*FIRST["fields"][1:], {"name": "currency", "type": "string", "default": "EUR"})
OTHER = 'syntax = "proto3"; package shop; message Party { string name = 1; }'
SOURCE = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
import "party.proto";
message Refund { int64 id = 1; }
message Payment { int64 id = 1; google.protobuf.Timestamp at = 2; Party payee = 3; }
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of schemas, and a short wait for a registry that is down."""
    monkeypatch.setenv("FRAUD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(record_format, "schema_source", client)


def client(settings: RegistrySettings) -> RegistryClient:
    return RegistryClient(settings.url, Secrets(), SchemaFolder.of_registry(settings), limit_s=3.0)


def reader(registry: SchemaRegistry, name: FormatName, *paths: Any, file: bytes = b"") -> RecordFormat:
    """A format that remembers no schema of another one, as in a process of its own."""
    settings = FormatSettings(name, RegistrySettings(registry.url), file)
    return record_format_of.__wrapped__(settings, (*required(*paths), *optional("currency")))


def avro_values(registry: SchemaRegistry, schema: dict[str, Any], *data: dict[str, Any]) -> list[bytes]:
    """Values as a producer with Confluent's serializer writes them."""
    serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))
    return [serialize(datum, SerializationContext("payments", MessageField.VALUE)) or b"" for datum in data]


def reasons(trees: list[object]) -> list[str | None]:
    return [tree.reason if isinstance(tree, RecordRejected) else None for tree in trees]


@pytest.mark.long
def test_avro_through_evolution_and_the_end_of_the_registry(registry: SchemaRegistry) -> None:
    (first,) = avro_values(registry, FIRST, {"id": 1, "at": 1_700_000_000_000})
    (second,) = avro_values(registry, SECOND, {"id": 2, "at": 1_700_000_000_001, "currency": "USD"})
    unknown = b"\0\0\0\xff\xff" + first[5:]
    read = reader(registry, FormatName.AVRO, "id", "at", file=json.dumps(SECOND).encode())
    expected = [
        {"id": 1, "at": EpochMs(1_700_000_000_000), "currency": "EUR"},
        {"id": 2, "at": EpochMs(1_700_000_000_001), "currency": "USD"},
    ]
    assert read.trees([first, second]) == expected
    assert reasons(read.trees([first, unknown, b"\0\xff\xff\xff\xff", first[:-1]])) == [
        None, "unknown_schema_id", "unknown_schema_id", "malformed_avro",
    ]  # fmt: skip

    registry.kill()
    try:
        assert read.trees([second, first]) == expected[::-1], "known schemas need no registry"
        restarted = reader(registry, FormatName.AVRO, "id", "at")
        assert restarted.trees([second]) == expected[1:], "nor after a restart of the detector on this host"
        with pytest.raises(RegistryUnavailable, match="this host has no copy of schema 65535"):
            read.trees([first, unknown])
    finally:
        registry.start()
    assert reasons(read.trees([first, unknown])) == [None, "unknown_schema_id"], "the batch succeeds when it is back"


def test_protobuf_with_a_reference(registry: SchemaRegistry) -> None:
    producer = SchemaRegistryClient({"url": registry.url})
    producer.register_schema("party", Schema(OTHER, "PROTOBUF"))
    references = [SchemaReference("party.proto", "party", 1)]
    key = producer.register_schema("payments-value", Schema(SOURCE, "PROTOBUF", references))
    kind = message_at(RegisteredSchema("PROTOBUF", SOURCE, (NamedText("party.proto", OTHER),)), (1,))

    def fill(message: Any) -> None:
        message.id, message.at.seconds, message.payee.name = 7, 1_700_000_000, "Zoë"

    value = b"\0" + key.to_bytes(4, "big") + b"\2\2" + built(kind, fill)
    read = reader(registry, FormatName.PROTOBUF, "id", "at", ("payee", "name"))
    assert read.trees([value]) == [{"id": 7, "at": EpochMs(1_700_000_000_000), "payee": {"name": "Zoë"}}]
    refund = b"\0" + key.to_bytes(4, "big") + b"\0"
    assert reasons(read.trees([refund, value[:-1]])) == ["incompatible_schema", "malformed_protobuf"]


def test_the_schemas_of_outputs_are_registered_once(registry: SchemaRegistry) -> None:
    source = client(RegistrySettings(registry.url))
    declared = subjects(TopicNames())
    first = {subject: source.register(subject, schema) for subject, schema in declared.items()}
    assert {subject: source.register(subject, schema) for subject, schema in declared.items()} == first
    registered = SchemaRegistryClient({"url": registry.url}).get_latest_version("alerts-value").schema
    assert (registered.schema_type, registered.schema_str) == ("JSON", declared["alerts-value"])
    with pytest.raises(RegistryUnavailable, match="gives no answer"):
        client(RegistrySettings("http://127.0.0.1:1")).register("alerts-value", "{}")


def test_a_topic_is_understood_by_its_registry(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "schema_source", client)
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    described = payment(
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "payment", "type": {"type": "record", "name": "shop.Inner", "fields": [
            {"name": "amount", "type": amount}, {"name": "payer", "type": ["null", "string"]},
        ]}},
    )  # fmt: skip
    made = payments()
    values = avro_values(
        registry,
        described,
        *(
            {
                "id": each.id,
                "at": each.at_ms * 1_000 + 999,
                "payment": {"amount": Decimal(each.cents).scaleb(-2), "payer": each.payer if i % 9 else None},
            }
            for i, each in enumerate(made)
        ),
    )
    sample = [SampleRecord(value, each.at_ms + 500) for value, each in zip(values, made, strict=True)]
    found = understand(sample, encoding=FormatSettings(registry=RegistrySettings(registry.url)))
    text = schema_text(found.proposal, found.recognized.envelope, (), found.encoding.document())
    schema = TransactionSchema.parse(parse_yaml(text, "the file"))
    assert schema == found.schema
    decoded = decode_sample(sample, schema, made[-1].at_ms)
    assert (decoded.rejects, decoded.ignored) == ([], 0)
    rows: list[dict[str, Any]] = [decoded.batch.row(i, schema) for i in range(len(decoded.batch))]
    assert [(row["transactionId"], row["eventTime"], row["amount"]) for row in rows] == [
        (each.id, each.at_ms, Decimal(each.cents).scaleb(-2)) for each in made
    ]
    assert [row.get("payer") for row in rows] == [each.payer if i % 9 else None for i, each in enumerate(made)]


def test_a_schema_of_another_format(registry: SchemaRegistry) -> None:
    schema = Schema('{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}', "JSON")
    key = SchemaRegistryClient({"url": registry.url}).register_schema("json", schema)
    value = b"\0" + key.to_bytes(4, "big") + b"{}"
    assert reasons(reader(registry, FormatName.AVRO, "id").trees([value])) == ["incompatible_schema"]
    assert reader(registry, FormatName.JSON_SCHEMA).trees([value]) == [b"{}"]

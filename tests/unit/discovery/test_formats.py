"""`fraud init` of records with schemas of their own: a file with Avro's schema, and a message type of Protobuf."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from fraud_rules.codec.formats import record_format
from fraud_rules.codec.formats.schemas import RegisteredSchema
from fraud_rules.discovery import registered
from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.discovery.schema_file import schema_text
from fraud_rules.discovery.understanding import Understanding, decode_sample, understand
from fraud_rules.errors import TopicNotUnderstood
from fraud_rules.model.declared.record_format import FormatName, FormatSettings, RegistrySettings
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.yaml_file import parse_yaml
from tests.support.formats.sources import MemoryRegistry
from tests.support.records.foreign_shapes import payments, record
from tests.support.records.formatted_shapes import AVRO, SOURCE, avro, protobuf


def sample_of(made: list[bytes]) -> list[SampleRecord]:
    return [SampleRecord(value, each.at_ms + 400) for value, each in zip(made, payments(), strict=True)]


def check(found: Understanding, sample: list[SampleRecord]) -> None:
    """The schema reads every payment exactly, also after it was written."""
    text = schema_text(found.proposal, found.recognized.envelope, (), found.encoding.document())
    schema = TransactionSchema.parse(parse_yaml(text, "the file"))
    assert schema == found.schema
    decoded = decode_sample(sample, schema, payments()[-1].at_ms)
    assert decoded.rejects == []
    (amount,) = [field.name for field in schema.fields if field.type == "decimal"]
    rows: list[dict[str, Any]] = [decoded.batch.row(i, schema) for i in range(len(decoded.batch))]
    assert [(row["eventTime"], row[amount]) for row in rows] == [
        (each.at_ms, Decimal(each.cents).scaleb(-2)) for each in payments()
    ]
    assert [int(str(row["transactionId"])[-12:]) for row in rows] == [each.id for each in payments()]
    assert [str(row.get("payeeId", row.get("payee"))) for row in rows] == [
        str(each.payee) if each.payee % 3 else "None" for each in payments()
    ]


def test_avro_with_a_schema_file() -> None:
    sample = sample_of(list(map(avro, payments())))
    check(understand(sample, encoding=FormatSettings(FormatName.AVRO, None, json.dumps(AVRO).encode())), sample)


def test_protobuf_with_a_descriptor_set() -> None:
    sample = sample_of(list(map(protobuf, payments())))
    check(understand(sample, encoding=FormatSettings(FormatName.PROTOBUF, None, SOURCE, "shop.Payment")), sample)


def test_the_format_is_that_of_the_registered_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = MemoryRegistry({7: RegisteredSchema("AVRO", json.dumps(AVRO)), 8: RegisteredSchema("JSON", "{}")})
    for place in (record_format, registered):
        monkeypatch.setattr(place, "schema_source", lambda settings: registry)
    monkeypatch.setattr(registered, "record_format_of", record_format.record_format_of.__wrapped__)
    settings = FormatSettings(registry=RegistrySettings("http://registry"))
    by_avro = understand(sample_of([b"\0\0\0\0\7" + avro(each) for each in payments()]), encoding=settings)
    assert by_avro.encoding.format is FormatName.AVRO
    assert {each.field.name for each in by_avro.proposal.fields} >= {"transactionId", "eventTime", "amount"}
    texts = [b"\0\0\0\0\x08" + record("flat", each) for each in payments()]
    assert understand(sample_of(texts), encoding=settings).encoding.format is FormatName.JSON_SCHEMA
    with pytest.raises(TopicNotUnderstood, match="the registry has no schema 9"):
        understand(sample_of([b"\0\0\0\0\x09x"] * len(payments())), encoding=settings)
    with pytest.raises(TopicNotUnderstood, match="not in a registry's wire format"):
        understand(sample_of([b"{}"] * len(payments())), encoding=settings)

"""Bad records of foreign topics through all readers of a real topic: the detector, a replay of its recording, the
archive and the nightly job. Each bad record is quarantined with a reason, and the payments around it are evaluated.

The tests are long: `test_origins` has the same readers with bad keys and headers, `test_init` a detector with a nested
topic, and `kafka/test_schema_registry` the reasons of a real registry.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from fraud_rules.batch.reevaluation.report import decode_result
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.quarantine import read_quarantine
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import alert_members, replay_recording
from tests.support.formats.schema_registry import schema_registry
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.nightly.jobs import JobsInTurn
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fed_detector import FedDetector
from tests.support.processes.running_detector import Installation
from tests.support.rules import sum_rule

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

DAY = Day.parse("2026-10-02")
NOON_MS = DAY.start_ms + 43_200_000
RULE = sum_rule(
    groupingKeyNames=["payer"], aggregateFieldName="amount", limitOperatorType=">=", limit=1, windowMinutes=20
)


@dataclass(frozen=True)
class Shape:
    """A topic: `good` makes the value of the nth payment, and `bad` has values with their reasons."""

    good: Callable[[int], bytes]
    bad: Mapping[bytes, str]
    fields: list[dict[str, Any]]
    keys: Mapping[str, Any] = field(default_factory=dict)


def fields(**paths: str) -> list[dict[str, Any]]:
    types: dict[str, dict[str, Any]] = {
        "transactionId": {"type": "long"},
        "eventTime": {"type": "timestamp", "unit": "ms"},
        "payer": {"type": "string"},
        "amount": {"type": "decimal", "precision": 18, "scale": 2},
    }
    return [{"name": name, **types[name], "path": path} for name, path in paths.items()]


def nested() -> Shape:
    def value(number: int, **members: Any) -> bytes:
        head, debtor = {"id": number, "at": NOON_MS}, {"account": {"id": "p"}}
        return json.dumps({"head": head, "debtor": debtor, "sum": {"value": 1.5}, **members}).encode()

    bad = {
        value(100, sum=None): "missing_field:amount",
        value(101, sum=[{"value": 1}]): "wrong_shape:amount",
        value(102, debtor={"account": "p"}): "wrong_shape:payer",
        value(103, head={"id": "a text", "at": NOON_MS}): "wrong_type:transactionId",
        value(104, sum={"value": float("nan")}): "malformed_json",
        value(105).replace(b'"value"', b'"value": 1, "value"'): "duplicate_field",
        value(106)[:-1]: "malformed_json",
        value(107, unused="x" * 2_000_000): "too_large",
        value(108, head={"id": 108, "at": NOON_MS // 1_000}): "past_event_time",
    }
    of = fields(transactionId="head.id", eventTime="head.at", payer="debtor.account.id", amount="sum.value")
    return Shape(value, bad, of)


def registered(url: str) -> Shape:
    """Avro records with the schemas of a registry. The payer's type changes, and a schema lacks the amount."""
    client = SchemaRegistryClient({"url": url})
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}

    def schema(*members: tuple[str, Any]) -> dict[str, Any]:
        all_of = (("id", "long"), ("at", {"type": "long", "logicalType": "timestamp-millis"}), *members)
        return {"type": "record", "name": "Payment", "fields": [{"name": name, "type": kind} for name, kind in all_of]}

    def framed(number: int, of: dict[str, Any], **members: Any) -> bytes:
        key = client.register_schema("payments-value", Schema(json.dumps(of), "AVRO"))
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, fastavro.parse_schema(of), {"id": number, "at": NOON_MS, **members})
        return b"\0" + key.to_bytes(4, "big") + datum.getvalue()

    usual, changed = (schema(("payer", kind), ("amount", amount)) for kind in ("string", "long"))

    def value(number: int) -> bytes:
        return framed(number, usual, payer="p", amount=Decimal("1.50"))

    bad = {
        b"\0\0\x7f\xff\xff" + value(100)[5:]: "unknown_schema_id",
        b"\1" + value(101)[1:]: "unknown_schema_id",
        b"\7" + value(101)[1:]: "wrong_magic_byte",
        value(102)[:-1]: "malformed_avro",
        framed(103, schema(("payer", "string")), payer="p"): "incompatible_schema",
        framed(104, changed, payer=7, amount=Decimal("1.50")): "wrong_type:payer",
    }
    of = fields(transactionId="id", eventTime="at", payer="payer", amount="amount")
    return Shape(value, bad, of, {"format": "avro", "registry": {"url": url}})


def check(
    shape: Shape, broker: Broker, project: Project, detectors: DetectorsInTurn, jobs: JobsInTurn, home: Path
) -> None:
    topics, file = timed_topics(broker, project), home / "schema.yaml"
    file.write_text(yaml.safe_dump({**shape.keys, "fields": shape.fields}))
    installation = Installation.make(home, project, topics, file, key_groups=3)
    schema, logs = TransactionSchema.load(file), Logs(topics)
    site = FedDetector(installation, detectors, logs)
    logs.append_rule(json.dumps(RULE).encode(), NOON_MS)
    good = [shape.good(number) for number in range(1, len(shape.bad) + 2)]
    for payment, bad in zip(good, [*shape.bad, None], strict=True):
        for value in (payment, bad):
            if value is not None:
                logs.append(value, NOON_MS)
    detectors.begin(installation)
    detectors.wait_ready()
    site.await_evaluated()
    assert detectors.stop() == 0

    await_settled(topics.kafka, [topics.names.quarantine])
    rejected = {each.raw: each.reason for each in read_quarantine(topics.kafka, topics.names.quarantine)}
    expected = {value[:1_000]: reason for value, reason in shape.bad.items()}
    assert {value[:1_000]: reason for value, reason in rejected.items()} == expected
    alerts = site.documents("alerts")
    assert [each["triggeringEvent"]["transactionId"] for each in alerts] == list(range(1, len(good) + 1))

    written = b"".join(record_run(topics.kafka, installation.settings, schema).lines())
    answer = replay_recording(Recording.read(written), schema, installation.settings)
    assert answer["alerts"] == [alert_members(each) for each in alerts]
    assert len(answer["quarantine"]) == len(shape.bad)

    report = jobs.archive(installation)
    assert (report["transactions"], report["refused"]) == (len(good), len(shape.bad))
    code, out, err = jobs.run("reevaluate", installation, f"--day={DAY}")
    assert code == 0, err[-3000:]
    result = decode_result(out)
    assert (result.confirmed, result.added, result.retracted) == (len(alerts), 0, 0)


def test_bad_records_of_a_nested_topic(
    broker: Broker, project: Project, detectors: DetectorsInTurn, jobs: JobsInTurn, tmp_path: Path
) -> None:
    check(nested(), broker, project, detectors, jobs, tmp_path)


def test_bad_records_of_a_topic_with_a_registry(
    broker: Broker, project: Project, detectors: DetectorsInTurn, jobs: JobsInTurn, tmp_path: Path
) -> None:
    with schema_registry(tmp_path) as registry:
        check(registered(registry.url), broker, project, detectors, jobs, tmp_path)

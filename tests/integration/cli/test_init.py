"""From a foreign topic to the first alert: `fraud init`, `fraud kafka topics check` and a detector on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from fraud_rules.configuration.project import Project
from fraud_rules.errors import InputInvalid, TopicNotUnderstood
from fraud_rules.runtime import clock
from tests.support.formats.schema_registry import schema_registry
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_detector import Installation
from tests.support.records.foreign_shapes import PAYMENTS, SHAPES, Payment, is_payment, payments, record
from tests.support.records.formatted_shapes import AVRO, SOURCE, avro, protobuf
from tests.support.rules import count_rule
from tests.support.waiting import until


def produce_shape(topics: OwnTopics, shape: str, rows: Sequence[Payment]) -> None:
    """Write payments in the order of their times."""
    produce(topics.bootstrap, topics.names.transactions, [record(shape, each) for each in rows])


def first_alerts(
    detectors: DetectorsInTurn,
    project: Project,
    topics: OwnTopics,
    home: Path,
    encode: Callable[[Payment], bytes],
    *options: str,
    describes: Callable[[Payment], bool] = lambda _: True,
) -> None:
    """Run the commands of docs/connect.md, and compare the alerts of a rule with the payments that follow it.
    `describes` says whether the record of a payment describes a new one."""
    made = payments(first_ms=clock.now_ms() - PAYMENTS * 1_000)
    transactions = topics.names.transactions
    produce(topics.bootstrap, transactions, list(map(encode, made[: PAYMENTS // 2])))
    written = home / "proposed.yaml"
    source = ("--from-topic", transactions, "--output", str(written), "--yes")
    said = fraud("init", *source, *options, env=topics.environment)
    assert f"written: {written}" in said.out
    fields = yaml.safe_load(written.read_text())["fields"]
    (amount,) = [each["name"] for each in fields if each["type"] == "decimal"]
    texts = [each["name"] for each in fields if each["type"] == "string" and each["name"] != "transactionId"]
    rule = count_rule(groupingKeyNames=texts[:1], aggregateFieldName=amount, limit=1, windowMinutes=60)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(rule).encode()])
    produce(topics.bootstrap, transactions, list(map(encode, made[PAYMENTS // 2 :])))
    detectors.begin(Installation.make(home, project, topics, written))
    detectors.wait_ready()
    rows = [each for each in made[PAYMENTS // 2 :] if describes(each)]
    until(lambda: len(read_all(topics.bootstrap, topics.names.alerts)) == len(rows), "each payment has its alert")
    assert detectors.stop() == 0
    alerts = read_all(topics.bootstrap, topics.names.alerts)
    found = [json.loads(each.value() or b"")["triggeringEvent"] for each in alerts]
    assert sorted(round(float(event[amount]) * 100) for event in found) == sorted(each.cents for each in rows)
    assert sorted(event["eventTime"] // 1_000 for event in found) == sorted(each.at_ms // 1_000 for each in rows)


def first_alerts_of(detectors: DetectorsInTurn, project: Project, topics: OwnTopics, home: Path, shape: str) -> None:
    first_alerts(detectors, project, topics, home, partial(record, shape), describes=partial(is_payment, shape))


def test_the_first_alert_of_a_nested_topic(
    detectors: DetectorsInTurn, project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    first_alerts_of(detectors, project, topics, tmp_path, "nested, microseconds")


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_alert(
    detectors: DetectorsInTurn, project: Project, topics: OwnTopics, tmp_path: Path, shape: str
) -> None:
    first_alerts_of(detectors, project, topics, tmp_path, shape)


@pytest.mark.long
def test_the_first_alert_of_avro_with_a_registry(
    detectors: DetectorsInTurn, project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    with schema_registry(tmp_path) as registry:
        key = SchemaRegistryClient({"url": registry.url}).register_schema("x", Schema(json.dumps(AVRO), "AVRO"))
        head = b"\0" + key.to_bytes(4, "big")
        first_alerts(detectors, project, topics, tmp_path, lambda each: head + avro(each), "--registry", registry.url)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "encode", "options"),
    [
        ("payment.avsc", json.dumps(AVRO).encode(), avro, ()),
        ("payment.desc", SOURCE, protobuf, ("--message", "shop.Payment")),
    ],
)
def test_the_first_alert_of_a_format_with_a_schema_file(
    detectors: DetectorsInTurn,
    project: Project,
    topics: OwnTopics,
    tmp_path: Path,
    name: str,
    content: bytes,
    encode: Callable[[Payment], bytes],
    options: tuple[str, ...],
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    first_alerts(detectors, project, topics, tmp_path, encode, "--schema-file", str(file), *options)


def test_the_topic_is_checked_with_the_present_schema(topics: OwnTopics) -> None:
    produce_shape(topics, "flat", payments())
    said = fraud("kafka", "topics", "check", "--json", env=topics.environment)
    report = json.loads(said.out)
    assert report["records"] == PAYMENTS
    assert list(report["rejected"]) == ["duplicate_field"]


def test_an_existing_schema_is_not_replaced_without_a_word(topics: OwnTopics, tmp_path: Path) -> None:
    produce_shape(topics, "flat", payments())
    kept = tmp_path / "schema.yaml"
    kept.write_text("mine")
    said = fraud("init", "--from-topic", topics.names.transactions, "--output", str(kept), env=topics.environment)
    assert said.exit_code == InputInvalid.exit_code
    assert "pass --yes to replace it" in said.err
    assert kept.read_text() == "mine"


def test_an_empty_topic_is_named(topics: OwnTopics) -> None:
    said = fraud("init", "--from-topic", topics.names.transactions, env=topics.environment)
    assert said.exit_code == TopicNotUnderstood.exit_code
    assert "send some payments first" in said.err

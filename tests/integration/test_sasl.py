"""A broker that asks who is there: every client gets in by the properties file, and the password shows nowhere."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.project import Project
from fraud_rules.settings import TopicNames
from tests.conftest import OwnTopics
from tests.ports import free_ports
from tests.running_detector import Installation, RunningDetector
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PASSWORD = "not-to-be-seen-7c1f"
PROPERTIES = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=fraud\nsasl.password={PASSWORD}\n"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="fraud" password="{PASSWORD}" user_fraud="{PASSWORD}";'
)
RULE = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 1,
    "windowMinutes": 1,
}


class SaslBroker(Broker):
    """The broker of `fraud broker`, with a lock on its door."""

    @property
    def kafka(self) -> KafkaConnection:
        pairs = (line.split("=", 1) for line in PROPERTIES.splitlines())
        return KafkaConnection.of(self.bootstrap, dict(pairs))


@pytest.fixture
def sasl_broker(project: Project, tmp_path: Path) -> Iterator[SaslBroker]:
    root = tmp_path / "project"
    shutil.copytree(project.config, root / "config")
    (root / "lib").symlink_to(project.jars)
    template = root / "config" / "broker.properties"
    locked = template.read_text().replace("BROKER:PLAINTEXT", "BROKER:SASL_PLAINTEXT")
    template.write_text(
        f"{locked}\nsasl.mechanism.inter.broker.protocol=PLAIN\nlistener.name.broker.sasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.broker.plain.sasl.jaas.config={JAAS}\n"
    )
    broker = SaslBroker(tmp_path / "broker", *free_ports(2), Project(root))
    broker.start()
    yield broker
    broker.kill()


def test_a_detector_at_a_broker_with_a_password(sasl_broker: SaslBroker, project: Project, tmp_path: Path) -> None:
    kafka, names = sasl_broker.kafka, TopicNames()
    declared = load_topics(project.config / "topics.yaml")
    topic_admin.apply(kafka, declared)
    assert {field.default for field in fields(TopicNames)} <= {topic.name for topic in declared}
    properties = tmp_path / "kafka.properties"
    properties.write_text(PROPERTIES)
    topics = OwnTopics(sasl_broker.bootstrap, "", names, declared)
    installation = Installation.make(tmp_path / "detector", project, topics, tick_ms=500)
    mistaken = replace(installation, extra={"FRAUD_KAFKA_SASL_PASSWORD": "wrong", "FRAUD_KAFKA_SASL_USERNAME": "fraud"})
    refused = RunningDetector(replace(mistaken, extra={**mistaken.extra, "FRAUD_KAFKA_PROPERTIES": str(properties)}))
    assert refused.wait_end() == BrokerUnavailable.exit_code

    detector = RunningDetector(replace(installation, extra={"FRAUD_KAFKA_PROPERTIES": str(properties)}))
    try:
        append_records(kafka, names.rules, [(b"1", json.dumps(RULE).encode())])
        detector.wait_ready()
        until(lambda: read_topic(kafka, names.rule_operations)[0], "the rule is live")
        tx = {"transactionId": 1, "eventTime": int(time.time() * 1_000), "payeeId": 1, "beneficiaryId": 2}
        record = json.dumps({**tx, "paymentType": "CSH", "paymentAmount": 5}).encode()
        append_records(kafka, names.transactions, [(b"", record)])
        until(lambda: read_topic(kafka, names.alerts)[0], "the alert is there")
        arguments = [" ".join(process.cmdline()) for process in detector.members()]
        assert not [line for line in arguments if PASSWORD in line]
        assert PASSWORD not in detector.said()
    finally:
        detector.kill()

"""A broker with SASL over mutual TLS: every client connects with the properties file, and no output contains the
password.

`test_access_control` has a broker with SCRAM and an authorizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.locked_broker import LockedBroker, Properties
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PASSWORD = "not-to-be-seen-7c1f"
PASSWORD_PROPERTIES = {"sasl.mechanism": "PLAIN", "sasl.username": "fraud", "sasl.password": PASSWORD}
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


def with_certificates(folder: Path) -> tuple[Properties, Properties]:
    """The properties of the broker's listener, and of a client: a password, and a certificate on each side."""
    authority = trustme.CA()
    ca, key, certificate, both = (folder / f"{name}.pem" for name in ("ca", "key", "certificate", "both"))
    authority.cert_pem.write_to_path(ca)
    issued = authority.issue_cert("127.0.0.1")
    pkcs8 = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(pkcs8.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    stores = {"ssl.keystore": both, "ssl.truststore": ca}
    listener = {f"{name}.location": str(path) for name, path in stores.items()}
    listener |= {f"{name}.type": "PEM" for name in stores} | {"ssl.client.auth": "required"}
    client = {"ssl.ca.location": ca, "ssl.key.location": key, "ssl.certificate.location": certificate}
    return listener, {
        "security.protocol": "SASL_SSL",
        **PASSWORD_PROPERTIES,
        **{name: str(path) for name, path in client.items()},
    }


@pytest.fixture
def locked(project: Project, tmp_path: Path) -> Iterator[LockedBroker]:
    listener, client = with_certificates(tmp_path)
    listener |= {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": JAAS}
    settings = {f"listener.name.broker.{name}": value for name, value in listener.items()}
    settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
    broker = LockedBroker.make(tmp_path, project, settings, client)
    broker.start()
    yield broker
    broker.kill()


def test_a_detector_works_with_a_secured_broker(locked: LockedBroker, project: Project, tmp_path: Path) -> None:
    kafka, names = locked.kafka, TopicNames()
    declared = load_topics(project.config / "topics.yaml")
    topic_admin.apply(kafka, declared)
    assert {field.default for field in fields(TopicNames)} <= {topic.name for topic in declared}
    properties = tmp_path / "kafka.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in locked.client.items()))
    topics = OwnTopics(locked.bootstrap, "", names, declared)
    installation = Installation.make(tmp_path / "detector", project, topics, tick_ms=500)
    mistaken = replace(installation, extra={"FRAUD_KAFKA_SASL_PASSWORD": "wrong", "FRAUD_KAFKA_SASL_USERNAME": "fraud"})
    refused = RunningDetector(replace(mistaken, extra={**mistaken.extra, "FRAUD_KAFKA_PROPERTIES": str(properties)}))
    assert refused.wait_end() == BrokerUnavailable.exit_code

    detector = RunningDetector(replace(installation, extra={"FRAUD_KAFKA_PROPERTIES": str(properties)}))
    try:
        append_records(kafka, names.rules, [(b"1", json.dumps(RULE).encode())])
        detector.wait_ready()
        until(lambda: read_topic(kafka, names.rule_operations)[0], "the rule is live")
        tx = {"transactionId": 1, "eventTime": now_ms(), "payeeId": 1, "beneficiaryId": 2}
        record = json.dumps({**tx, "paymentType": "CSH", "paymentAmount": 5}).encode()
        append_records(kafka, names.transactions, [(b"", record)])
        until(lambda: read_topic(kafka, names.alerts)[0], "the alert is there")
        arguments = [" ".join(process.cmdline()) for process in detector.members()]
        assert not [line for line in arguments if PASSWORD in line]
        assert PASSWORD not in detector.said()
        records = [
            record for name in asdict(names).values() for part in read_topic(kafka, name).values() for record in part
        ]
        assert len(records) > 4, "rule, transaction, alert, operation, progress"
        assert not [record for record in records if PASSWORD.encode() in (record.value or b"")]
    finally:
        detector.kill()

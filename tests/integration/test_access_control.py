"""A broker with SCRAM over mutual TLS and an authorizer. Each component works with its own principal and has no further
rights. No output has a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.sync.background import Background
from fraud_ops.observer import DetectorObserver
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.deploy.attempt import AttemptPhase, Supervision
from fraud_rules.deploy.deployment_log import write_supervision
from fraud_rules.errors import BrokerUnavailable, ConfigError
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.access import ACCESS, KafkaComponent, Resource, acls_of
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.scram_users import user_of
from fraud_rules.kafka.writer import keep_until_exit
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.hooks.checkpoint import CheckpointHook
from tests.support.control_plane.scene import ADA, ANN, Scene, empty_store, rule_input
from tests.support.kafka.locked_broker import (
    PASSWORD,
    LockedBroker,
    LockedTopics,
    authorizing_broker,
    password_of,
    write_properties,
)
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_agent import DETECTOR, Operations
from tests.support.records.payments import payment_record
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LARGE_BATCH = 4_500
"""Enough payments for a large batch."""


@pytest.fixture
def broker(project: Project, tmp_path: Path) -> Iterator[LockedBroker]:
    broker = authorizing_broker(tmp_path, project)
    broker.start()
    yield broker
    broker.kill()


def kafka_as(broker: LockedBroker, component: KafkaComponent) -> KafkaConnection:
    return broker.kafka_as(user_of(component))


def test_each_component_works_with_its_principal_and_has_no_further_rights(
    broker: LockedBroker, project: Project, tmp_path: Path
) -> None:
    create_users(broker, tmp_path)
    skip_topics(broker, tmp_path)
    topic_admin.apply(broker.kafka, load_topics(project.config / "topics.yaml"))
    apply_acls(broker, tmp_path)
    activate_rule(broker, tmp_path)
    send_payments(broker, LARGE_BATCH)
    run_detector(broker, project, tmp_path)
    assert forbidden_writes(broker) == []
    assert forbidden_ids(broker) == []
    with pytest.raises(BrokerUnavailable, match="no ACL allows"):
        read_topic(kafka_as(broker, KafkaComponent.PRODUCER), TopicNames().alerts)
    check_checkpoint(broker)
    files = [path for path in (tmp_path / "ops").rglob("*") if path.is_file() and path.suffix != ".properties"]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    records = [each for name in asdict(TopicNames()).values() for part in read_topic(broker.kafka, name).values()
               for each in part]  # fmt: skip
    assert not [each for each in records if PASSWORD.encode() in (each.value or b"")]


def check_checkpoint(broker: LockedBroker) -> None:
    """Airflow reads everything about the checkpoint except the size of the state, which is the cluster's."""
    facts = CheckpointHook(kafka_as(broker, KafkaComponent.AIRFLOW), DetectorSettings()).facts(now_ms(), open_ms=30_000)
    assert (facts.fault, facts.stuck, facts.short_of_replicas, facts.size_bytes) == (None, [], [], None)
    assert facts.batch_id is not None


def create_users(broker: LockedBroker, folder: Path) -> None:
    """Create the users with the command, as the administrator. A second run sets the same passwords again."""
    admin = write_properties(folder / "admin.properties", broker.client)
    variables = {each: f"FRAUD_KAFKA_{each.replace('-', '_').upper()}_PASSWORD" for each in KafkaComponent}
    passwords = {variables[each]: password_of(user_of(each)) for each in KafkaComponent}
    env = {"FRAUD_BOOTSTRAP": broker.bootstrap, "FRAUD_KAFKA_PROPERTIES": str(admin), **passwords}
    for _ in range(2):
        done = fraud("kafka", "acls", "users", env=env)
        assert done.exit_code == 0, done.err
        assert PASSWORD not in done.out + done.err
    operator = write_properties(folder / "operator.properties", broker.properties_of(user_of(KafkaComponent.OPERATOR)))
    refused = fraud("kafka", "acls", "users", "--only=agent", env={**env, "FRAUD_KAFKA_PROPERTIES": str(operator)})
    assert (refused.exit_code, "may change users" in refused.err) == (BrokerUnavailable.exit_code, True), refused.err


def skip_topics(broker: LockedBroker, folder: Path) -> None:
    """Without ACLs, nobody but the administrator may create topics. The command names each, and can skip them."""
    operator = write_properties(folder / "operator.properties", broker.properties_of(user_of(KafkaComponent.OPERATOR)))
    env = {"FRAUD_BOOTSTRAP": broker.bootstrap, "FRAUD_KAFKA_PROPERTIES": str(operator)}
    refused = fraud("kafka", "topics", "apply", env=env)
    assert refused.exit_code == ConfigError.exit_code
    assert re.search(r"transactions: its creation \(.*uthorization", refused.err), refused.err
    skipped = fraud("kafka", "topics", "apply", "--skip-unsupported", env=env)
    assert skipped.exit_code == 0, skipped.err
    assert skipped.out.count("skipped ") == len(fields(TopicNames))
    assert skipped.out.count("fraud kafka topics print") == len(fields(TopicNames))


def apply_acls(broker: LockedBroker, folder: Path) -> None:
    """Create the ACLs with the command, as the administrator. A second run changes nothing."""
    admin = write_properties(folder / "admin.properties", broker.client)
    env = {"FRAUD_BOOTSTRAP": broker.bootstrap, "FRAUD_KAFKA_PROPERTIES": str(admin)}
    first, second = (fraud("kafka", "acls", "apply", env=env) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0), first.err + second.err
    assert "User:fraud-agent: Write on transactional-id fraud-agent-detector" in first.out
    count = len(acls_of(TopicNames(), DETECTOR, dict.fromkeys(KafkaComponent, "User:x")))
    assert second.out == f"0 ACLs created, {count} unchanged, 0 others\n"
    airflow = write_properties(folder / "airflow.properties", broker.properties_of(user_of(KafkaComponent.AIRFLOW)))
    refused = fraud("kafka", "acls", "apply", env={**env, "FRAUD_KAFKA_PROPERTIES": str(airflow)})
    assert refused.exit_code == BrokerUnavailable.exit_code
    mistaken = fraud("kafka", "acls", "apply", env={**env, "FRAUD_KAFKA_SASL_PASSWORD": "wrong"})
    assert mistaken.exit_code == BrokerUnavailable.exit_code, "the environment has precedence over the file"


def send_payments(broker: LockedBroker, count: int) -> None:
    producer = Producer(kafka_as(broker, KafkaComponent.PRODUCER).confluent({"linger.ms": 20}))
    for number in range(count):
        record = payment_record(number, now_ms(), payeeId=number % 50, paymentAmount=5)
        producer.produce(TopicNames().transactions, record, partition=number % 2)
        producer.poll(0)
    assert producer.flush(30) == 0


def activate_rule(broker: LockedBroker, folder: Path) -> None:
    """Create and activate a rule in the control plane, and wait until it has published both records."""
    kafka, url = kafka_as(broker, KafkaComponent.CONTROL_PLANE), empty_store(folder)
    scene = Scene(Database.open(url), ControlPlaneSettings(database=url, bindings={"ada": Role.ADMIN}))
    background = Background(replace(scene.store, clock_ms=now_ms), kafka, DetectorSettings(), alarm_receivers=tuple)
    background.start()
    try:
        detail = scene.service.create(ANN, rule_input(ruleId=1, limit=1))
        detail = scene.service.change_state(ADA, 1, detail.row.revision, StateName.SHADOW)
        scene.service.change_state(ADA, 1, detail.row.revision, StateName.ACTIVE)
        until(lambda: scene.service.outbox().pending == 0, "the rule is published")
        assert background.failures() == {}
    finally:
        background.stop()
        scene.database.close()


def run_detector(broker: LockedBroker, project: Project, folder: Path) -> None:
    """Let the agent run a detector with principals of their own, on Airflow's request, until its alerts arrive."""
    home = folder / "ops"
    home.mkdir()
    agent, detector = (
        write_properties(home / f"{each}.properties", broker.properties_of(user_of(each)))
        for each in (KafkaComponent.AGENT, KafkaComponent.DETECTOR)
    )
    topics = broker.topics_as(user_of(KafkaComponent.AIRFLOW))
    ops = Operations(home, project, topics, {"FRAUD_KAFKA_PROPERTIES": str(agent)})
    try:
        ops.agent("--drain-on-exit")
        record = ops.decide(ops.release(kafka_properties=str(detector), master="local[2,4]"))
        ops.await_phase(record, AttemptPhase.RUNNING)
        assert not [each for each in ops.members(record) if PASSWORD in " ".join(each.cmdline())]
        consume_alert(broker, topics.names.alerts)
        send_payments(broker, 5)
        until(lambda: evaluated(topics) == LARGE_BATCH + 5, "a small batch ends, too")
        settings = replace(DetectorSettings(), topics=topics.names)
        with closing(DetectorObserver(topics.kafka, settings)) as observer:
            assert observer.observe().fault is None
        supervision = Supervision(DETECTOR, "airflow", now_ms(), "HEALTHY", record.epoch)
        write_supervision(topics.kafka, topics.names.detector_attempts, supervision)
        ops.await_phase(ops.decide(None), AttemptPhase.STOPPED)
    finally:
        ops.end()


def consume_alert(broker: LockedBroker, topic: str) -> None:
    """Wait for an alert as a consumer of another team, in a group of its own."""
    settings = {"group.id": "payment-test", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(kafka_as(broker, KafkaComponent.CONSUMER).confluent(settings))
    with closing(consumer):
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(0.5), "an alert arrives")
        assert message.error() is None, message.error()


def evaluated(topics: LockedTopics) -> int:
    """The transactions that the detector has evaluated."""
    (records,) = read_topic(topics.kafka, topics.names.detector_progress).values()
    return sum(json.loads(record.value or b"{}")["rows"] for record in records)


def forbidden_writes(broker: LockedBroker) -> list[str]:
    """Let each component write to each topic. Return the results that differ from the table."""
    wrong = []
    for component in KafkaComponent:
        refused = refused_topics(kafka_as(broker, component))
        for role in fields(TopicNames):
            allowed = role.name in ACCESS[component].writes
            if allowed == (role.default in refused):
                wrong.append(f"{component} -> {role.default}: {'refused' if allowed else 'accepted'}")
    return wrong


def refused_topics(kafka: KafkaConnection) -> set[str]:
    errors: dict[str, int] = {}
    producer = Producer(kafka.confluent({"error_cb": lambda _: None, "log_level": 0, "message.timeout.ms": 20_000}))
    for role in fields(TopicNames):
        name = str(role.default)

        def delivered(error: KafkaError | None, _: object, name: str = name) -> None:
            if error is not None:
                errors[name] = error.code()

        producer.produce(name, b"forged", b"key", on_delivery=delivered)
    assert producer.flush(30) == 0
    assert set(errors.values()) <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}, errors
    return set(errors)


def forbidden_ids(broker: LockedBroker) -> list[str]:
    """Let the owners of each transactional id open it, and one other component. Return the results that differ from the
    ACLs. `test_access` shows that each id has one writer."""
    acls = acls_of(TopicNames(), DETECTOR, {each: each.value for each in KafkaComponent})
    ids = [acl for acl in acls if acl.resource is Resource.TRANSACTIONAL_ID]
    owners = {name: {acl.principal for acl in ids if acl.name == name} for name in sorted({acl.name for acl in ids})}
    others = {name: next(each for each in KafkaComponent if each not in allowed) for name, allowed in owners.items()}
    return [
        f"{component} -> {name}"
        for name, allowed in owners.items()
        for component in map(KafkaComponent, (*sorted(allowed), others[name]))
        if opens(kafka_as(broker, component), name) == (component is others[name])
    ]


def opens(kafka: KafkaConnection, transactional_id: str) -> bool:
    """Whether a producer may open an id, and so fence its earlier writer."""
    producer = Producer(kafka.confluent({"transactional.id": transactional_id, "log_level": 0}))
    keep_until_exit(producer)  # the next one fences it
    try:
        producer.init_transactions(20)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, error
        return False
    return True

"""The passwords of the agent and of the detector rotate without a lost payment, as docs/security.md describes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined] # stub
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.deploy.intent import IntentRecord
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.access import KafkaComponent
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.scram_users import create_users
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.locked_broker import (
    ADMIN,
    LockedBroker,
    authorizing_broker,
    password_of,
    write_properties,
)
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_agent import Operations
from tests.support.records.payments import payment_record
from tests.support.rules import sum_rule
from tests.support.waiting import LOOK_S, until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

ROTATED = (KafkaComponent.AGENT, KafkaComponent.DETECTOR)
RULE = sum_rule(limit=1, windowMinutes=1)


@pytest.fixture
def broker(project: Project, tmp_path: Path) -> Iterator[LockedBroker]:
    broker = authorizing_broker(tmp_path, project)
    broker.start()
    topic_admin.apply(broker.kafka, load_topics(project.config / "topics.yaml"))
    yield broker
    broker.kill()


def test_passwords_rotate_by_a_second_user_without_a_lost_payment(
    broker: LockedBroker, project: Project, tmp_path: Path
) -> None:
    first, second = (add_users(broker, tmp_path, turn) for turn in ("1", "2"))
    topics = broker.topics_as(ADMIN)
    append_records(broker.kafka, topics.names.rules, [(b"1", json.dumps(RULE).encode())])
    ops = Operations(tmp_path, project, topics)
    try:
        ops.accept_properties(first[KafkaComponent.DETECTOR])
        agent = ops.agent(FRAUD_KAFKA_PROPERTIES=str(first[KafkaComponent.AGENT]))
        before = deploy(ops, first[KafkaComponent.DETECTOR])
        pay(broker, 0)
        until(lambda: alerted(broker) == [0], "the detector of the first user works")

        ops.accept_properties(*first.values(), *second.values())
        agent.send_signal(signal.SIGTERM)
        ops.await_end(agent)
        assert ops.members(before), "the detector continues without its agent"
        pay(broker, 1)
        ops.agent("--drain-on-exit", FRAUD_KAFKA_PROPERTIES=str(second[KafkaComponent.AGENT]))
        deploy(ops, second[KafkaComponent.DETECTOR])
        ops.await_gone(before)
        remove_users(broker, "1")
        for component in ROTATED:
            await_rejection(broker, user(component, "1"))
        pay(broker, 2)
        until(lambda: alerted(broker) == [0, 1, 2], "each payment has one alert")
        ops.await_phase(ops.decide(None), AttemptPhase.STOPPED)
    finally:
        ops.end()


def user(component: KafkaComponent, turn: str) -> str:
    return f"fraud-{component}-{turn}"


def add_users(broker: LockedBroker, folder: Path, turn: str) -> dict[KafkaComponent, Path]:
    """Create a user of each component with its ACLs, and a file with its password. Return the files."""
    names = [user(component, turn) for component in ROTATED]
    create_users(broker.kafka, {name: password_of(name) for name in names})
    admin = write_properties(folder / "admin.properties", broker.client)
    env = {"FRAUD_BOOTSTRAP": broker.bootstrap, "FRAUD_KAFKA_PROPERTIES": str(admin)}
    for component, name in zip(ROTATED, names, strict=True):
        done = fraud("kafka", "acls", "apply", "--only", component, "--principal", f"{component}=User:{name}", env=env)
        assert done.exit_code == 0, done.err
    return {each: write_properties(folder / f"{user(each, turn)}.properties", broker.properties_of(user(each, turn)))
            for each in ROTATED}  # fmt: skip


def remove_users(broker: LockedBroker, turn: str) -> None:
    """Delete the users of a turn, and their ACLs."""
    client = AdminClient(broker.kafka.confluent({"log_level": 0}))
    names = [user(component, turn) for component in ROTATED]
    deletions = [UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512) for name in names]
    for done in client.alter_user_scram_credentials(deletions).values():
        done.result()
    acls = [
        AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{name}", None, AclOperation.ANY,
                         AclPermissionType.ANY)
        for name in names
    ]  # fmt: skip
    for deleted in client.delete_acls(acls).values():
        assert deleted.result(), "the user had ACLs"


def await_rejection(broker: LockedBroker, name: str) -> None:
    """Wait until the broker rejects the login of a user."""
    faults: list[int] = []
    quiet = {"log_level": 0, "error_cb": lambda error: faults.append(error.code())}
    client = AdminClient(broker.kafka_as(name).confluent(quiet))

    def is_rejected() -> bool:
        client.poll(LOOK_S)
        return KafkaError._AUTHENTICATION in faults

    until(is_rejected, f"the broker rejects {name}")


def deploy(ops: Operations, properties: Path) -> IntentRecord:
    """Run a release with the credentials of a file, and wait until it runs."""
    record = ops.decide(ops.release(kafka_properties=str(properties)))
    ops.await_phase(record, AttemptPhase.RUNNING)
    return record


def pay(broker: LockedBroker, number: int) -> None:
    """Send a payment that alerts."""
    record = payment_record(number, now_ms(), payeeId=number, paymentAmount=5)
    append_records(broker.kafka, TopicNames().transactions, [(b"", record)])


def alerted(broker: LockedBroker) -> list[int]:
    """The transactions of all alerts, ascending."""
    parts = read_topic(broker.kafka, TopicNames().alerts).values()
    return sorted(
        json.loads(record.value or b"{}")["triggeringEvent"]["transactionId"] for part in parts for record in part
    )

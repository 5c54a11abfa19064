"""A read that decides about a write waits until no open transaction hides a record from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from confluent_kafka import Producer

from fraud_rules.batch.reevaluation.corrections import _tail
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import AgentStatus
from fraud_rules.deploy.deployment_log import read_deployment, read_intent_log
from fraud_rules.deploy.intent import Intent, IntentKind
from fraud_rules.errors import BrokerUnavailable, StateDamaged, TransactionOpen
from fraud_rules.kafka.consume import ends_of, read_topic, settled_ends
from fraud_rules.kafka.history_writer import loaded_records
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.writer import last_record
from fraud_rules.logs.quarantine import read_marks
from fraud_rules.logs.rule_status import read_rules
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.state_guard import check_state, new_position
from fraud_rules.stream.pins import Pin
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics

TOPIC_ROLES = (
    "alert_corrections",
    "detector_attempts",
    "detector_intents",
    "detector_marker",
    "detector_state",
    "quarantine_replays",
    "rule_operations",
    "rules",
    "transactions",
)

KEY = b"cards"
HEARTBEAT = msgspec.json.encode(AgentStatus("cards", "agent-1", "host", "code", 1, 0))
INTENT = Intent("cards", IntentKind.DRAIN, "a", -1, "test", "somebody", "test", 1)
SCHEMA = TransactionSchema.load(Project.find().config / "schema.yaml")


def append(topics: OwnTopics, topic: str, value: bytes, key: bytes = KEY, partition: int = 0) -> None:
    """Append a record outside of any transaction, with the header of the fourth record of a load."""
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    producer.produce(topic, value, key, partition=partition, headers=[("load", b"here:3")])
    assert producer.flush(30.0) == 0


def settings_of(topics: OwnTopics) -> DetectorSettings:
    return DetectorSettings(topics=topics.names)


Read = Callable[[OwnTopics], object]
DECIDE: dict[str, tuple[str, bytes, bytes, Read]] = {
    "the newest marker": (
        "detector_marker", KEY, b"m", lambda t: last_record(t.kafka, t.names.detector_marker, KEY) == b"m"
    ),
    "the corrections of other days": (
        "alert_corrections", KEY, b"c", lambda t: _tail(t.kafka, t.names.alert_corrections, {}) == [(KEY, b"c")]
    ),
    "the replayed records of the quarantine": (
        "quarantine_replays", KEY, b"q", lambda t: KEY in read_marks(t.kafka, t.names.quarantine_replays)
    ),
    "the records of an interrupted load": (
        "transactions", KEY, b"t", lambda t: loaded_records(t.kafka, t.names.transactions, "here") == 4
    ),
    "the names of chunks": (
        "detector_state",
        b"cards/0/1-a",
        b"s",
        lambda t: StateTopic(t.kafka, t.names.detector_state, "cards", 8).names().get(0) == {"1-a"},
    ),
    "the intents": (
        "detector_intents",
        KEY,
        INTENT.encode(),
        lambda t: read_intent_log(t.kafka, t.names.detector_intents, "cards").records != (),
    ),
    "the heartbeat of another agent": (
        "detector_attempts",
        b"cards/agent",
        HEARTBEAT,
        lambda t: read_deployment(t.kafka, t.names.detector_attempts, "cards", settled=True).agent is not None,
    ),
    "the rules before a change": (
        "rules",
        b"1",
        b"{}",
        lambda t: len(read_rules(t.kafka, SCHEMA, settings_of(t), settled=True).timeline.entries) == 1,
    ),
    "the rules before a restore": (
        "rules", b"1", b"{}", lambda t: len(read_topic(t.kafka, t.names.rules, settled=True)[0]) == 1
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "key", "value", "sees"), DECIDE.values(), ids=DECIDE)
def test_a_deciding_read_waits_for_a_transaction_of_another_program(
    role: str, key: bytes, value: bytes, sees: Read, topics: OwnTopics
) -> None:
    topic = getattr(topics.names, role)
    with ThreadPoolExecutor(1) as others:
        with open_transaction(topics, topic):
            append(topics, topic, value, key)
            found = others.submit(sees, topics)
            with pytest.raises(TimeoutError):
                found.result(1.0)
        assert found.result(180.0)


def test_the_error_names_the_open_transaction(topics: OwnTopics) -> None:
    topic = topics.names.detector_marker
    append(topics, topic, b"1")
    with open_transaction(topics, topic), TopicReader(topics.kafka, topic) as reader:
        with pytest.raises(TransactionOpen) as found:
            settled_ends(reader, within_s=0.1)
        assert last_record(topics.kafka, topic, KEY, settled=False) == b"1"
    assert re.match(r"a transaction of producer \d+ \(other-\w+\) has been open for \d+ s ", str(found.value))
    assert f"hides the records of {topic}-0 from offset 1 on" in str(found.value)
    assert isinstance(found.value, BrokerUnavailable), "its callers try again"


def test_the_settled_ends_of_a_quiet_topic_are_those_that_readers_see(topics: OwnTopics) -> None:
    topic = topics.names.transactions
    append(topics, topic, b"1", partition=1)
    with TopicReader(topics.kafka, topic) as reader:
        assert settled_ends(reader) == ends_of(reader, settled=False) == {0: (0, 0), 1: (0, 1)}


def test_a_state_behind_an_open_transaction_is_not_damaged(topics: OwnTopics) -> None:
    settings, topic = settings_of(topics), topics.names.detector_state
    empty = new_position(topics.kafka, settings)
    marker = Marker("query", 2, {}, Pin(2, 0), state=msgspec.structs.replace(empty, ends=[2, *empty.ends[1:]]))
    with ThreadPoolExecutor(1) as others:
        with open_transaction(topics, topic):
            append(topics, topic, b"head", b"cards/0/head")
            with pytest.raises(StateDamaged):
                check_state(topics.kafka, settings, marker, settled=False)
            checked = others.submit(check_state, topics.kafka, settings, marker)
            with pytest.raises(TimeoutError):
                checked.result(1.0)
        checked.result(180.0)

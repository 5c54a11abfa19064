"""The declaration of topics, the plan of changes, and refused changes."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import BrokerUnavailable, ConfigError
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.declared import Cleanup, Timestamp, Topic, load_topics
from fraud_rules.kafka.reader import has_topic
from fraud_rules.kafka.topics import ExistingTopic, StepKind, plan
from fraud_rules.kafka.writer import MAX_RECORD_BYTES
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.timed_topics import set_topic
from tests.support.ports import free_ports
from tests.support.waiting import until

DAY_MS = 86_400_000
ALERTS = Topic("alerts", 2, retention_ms=7 * DAY_MS)
EXTERNAL = Topic("alerts", 1, external=True)


def as_is(topic: Topic) -> ExistingTopic:
    return ExistingTopic(topic.name, topic.partitions, topic.kafka_settings)


def test_every_topic_the_detector_names_is_declared(project: Project) -> None:
    declared = {topic.name for topic in load_topics(project.config / "topics.yaml")}
    assert declared == {field.default for field in fields(TopicNames)}


def test_the_rule_log_is_one_sequence_for_ever(project: Project) -> None:
    (rules,) = (topic for topic in load_topics(project.config / "topics.yaml") if topic.name == "rules")
    assert rules == Topic("rules", 1, None, Cleanup.DELETE, Timestamp.APPEND)


def test_no_topic_needs_larger_records_than_hosted_kafka_services_allow(project: Project) -> None:
    declared = load_topics(project.config / "topics.yaml")
    assert max(topic.max_record_bytes for topic in declared) == MAX_RECORD_BYTES == 8 * 1024 * 1024


def test_a_prefix_comes_before_every_name(project: Project) -> None:
    assert all(topic.name.startswith("mine-") for topic in load_topics(project.config / "topics.yaml", "mine-"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a mapping"),
        ("topics: []", "must be a mapping"),
        ("topics: {a: 1}", "a must be a mapping"),
        ("topics: {a: {retention: 1d}}", "a.partitions"),
        ("topics: {a: {partitions: true, retention: 1d}}", "a.partitions"),
        ("topics: {a: {partitions: 1, retention: 7}}", "a.retention"),
        ("topics: {a: {partitions: 1, retention: 0d}}", "a.retention"),
        ("topics: {a: {partitions: 1, retention: 1d, colour: red}}", "a.colour is unknown"),
        ("topics: {a: {partitions: 1, retention: 1d, cleanup: shred}}", "delete, compact"),
        ("topics: {a b: {partitions: 1, retention: 1d}}", "is not a topic name"),
        ("topics: {a: {partitions: 1, retention: 1d, kafka: [1]}}", "a.kafka"),
        ("topics: {a: {external: true, partitions: 1}}", "a: partitions beside `external: true`"),
        ("topics: {a: {partitions: 1, retention: 1d, external: 1}}", "a.external"),
        ("{topics: {a: {partitions: 1, retention: 1d}}, replication: -1}", "replication"),
        ("topics: {a: {partitions: 0, retention: x}, b: {partitions: 0, retention: x}}", "b.retention"),
        ("topics: [", "cannot be read as YAML"),
        ("topics: {a: {partitions: 1, retention: 1d}, a: {partitions: 2, retention: 1d}}", "a is given twice"),
    ],
)
def test_a_wrong_declaration_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "topics.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_topics(tmp_path / "topics.yaml")


@pytest.mark.parametrize(
    ("declared", "observed", "kind"),
    [
        (ALERTS, None, StepKind.CREATE),
        (ALERTS, as_is(ALERTS), StepKind.UNCHANGED),
        # longer kept, more partitions, larger records: nothing is lost
        (replace(ALERTS, retention_ms=8 * DAY_MS), as_is(ALERTS), StepKind.CHANGE),
        (replace(ALERTS, retention_ms=None), as_is(ALERTS), StepKind.CHANGE),
        (replace(ALERTS, partitions=3), as_is(ALERTS), StepKind.CHANGE),
        (replace(ALERTS, max_record_bytes=9), as_is(ALERTS), StepKind.CHANGE),
        # the broker's clock in place of the producers'
        (ALERTS, as_is(replace(ALERTS, timestamp=Timestamp.CREATE)), StepKind.CHANGE),
        # shorter kept, fewer partitions, other clean-up, other clock: something is
        (replace(ALERTS, retention_ms=DAY_MS), as_is(ALERTS), StepKind.REFUSE),
        (ALERTS, as_is(replace(ALERTS, retention_ms=None)), StepKind.REFUSE),
        (replace(ALERTS, partitions=1), as_is(ALERTS), StepKind.REFUSE),
        (replace(ALERTS, cleanup=Cleanup.COMPACT), as_is(ALERTS), StepKind.REFUSE),
        (replace(ALERTS, timestamp=Timestamp.CREATE), as_is(ALERTS), StepKind.REFUSE),
        # a topic that belongs to others
        (EXTERNAL, as_is(ALERTS), StepKind.UNCHANGED),
        (
            EXTERNAL,
            as_is(replace(ALERTS, partitions=9, retention_ms=None, cleanup=Cleanup.COMPACT)),
            StepKind.UNCHANGED,
        ),
        (EXTERNAL, as_is(replace(ALERTS, timestamp=Timestamp.CREATE)), StepKind.REFUSE),
        (EXTERNAL, None, StepKind.REFUSE),
        # a broker that does not show the settings of a new topic yet
        (ALERTS, ExistingTopic("alerts", 2, {}), StepKind.REFUSE),
    ],
)
def test_plan(declared: Topic, observed: ExistingTopic | None, kind: StepKind) -> None:
    (step,) = plan([declared], {observed.name: observed} if observed else {})
    assert step.kind is kind


def test_apply_twice_changes_nothing(topics: OwnTopics) -> None:
    assert {step.kind for step in topic_admin.apply(topics.kafka, topics.declared)} == {StepKind.UNCHANGED}


def test_a_refusal_names_the_topic_and_leaves_all_as_it_was(topics: OwnTopics) -> None:
    transactions, rules, *_ = topics.declared
    wanted = [replace(transactions, partitions=9), replace(rules, cleanup=Cleanup.COMPACT)]
    with pytest.raises(ConfigError, match=rf"{rules.name}: cleanup.policy is delete, declared compact"):
        topic_admin.apply(topics.kafka, wanted)
    assert topic_admin.apply(topics.kafka, [transactions])[0].kind is StepKind.UNCHANGED


def test_a_safe_change_is_made(topics: OwnTopics) -> None:
    wanted = replace(topics.declared[0], partitions=3, retention_ms=None, max_record_bytes=12_000_000)
    assert topic_admin.apply(topics.kafka, [wanted])[0].kind is StepKind.CHANGE
    assert topic_admin.apply(topics.kafka, [wanted])[0].kind is StepKind.UNCHANGED


def test_an_external_topic_is_only_checked(topics: OwnTopics) -> None:
    declared = topics.declared[0]
    external = Topic(declared.name, 1, external=True)
    assert topic_admin.apply(topics.kafka, [external])[0].kind is StepKind.UNCHANGED
    set_topic(topics.bootstrap, declared.name, "message.timestamp.type", "CreateTime")

    def refusal() -> str:
        try:
            topic_admin.apply(topics.kafka, [external])
        except ConfigError as error:
            return str(error)
        return ""

    said = until(refusal, "the broker shows the setting")
    assert f"{declared.name}: message.timestamp.type is CreateTime, declared LogAppendTime (an external topic" in said
    missing = Topic(f"{topics.prefix}nowhere", 1, external=True)
    with pytest.raises(ConfigError, match="the topic is missing, declared external"):
        topic_admin.apply(topics.kafka, [missing])


def test_a_setting_kafka_does_not_know_is_refused(topics: OwnTopics) -> None:
    strange = replace(topics.declared[0], settings=(("colour", "red"),))
    with pytest.raises(ConfigError, match="colour"):
        topic_admin.apply(topics.kafka, [strange])
    with pytest.raises(ConfigError, match="colour"):
        topic_admin.apply(topics.kafka, [replace(strange, name=f"{topics.prefix}new")])


def test_transactions_take_large_records_and_the_brokers_time(topics: OwnTopics) -> None:
    large = b"x" * 6_000_000
    produce(topics.bootstrap, topics.names.transactions, [b"small", large, None])
    first, second, third = read_all(topics.bootstrap, topics.names.transactions)
    assert (first.value(), second.value(), third.value()) == (b"small", large, None)
    kinds = {message.timestamp()[0] for message in (first, second, third)}
    assert kinds == {2}  # log append time


def test_a_query_for_a_topic_does_not_create_it(topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = f"{topics.prefix}absent"
    assert has_topic(topics.kafka, topics.names.latency)
    assert [has_topic(topics.kafka, absent) for _ in range(2)] == [False, False]
    monkeypatch.setattr("fraud_rules.kafka.reader._TIMEOUT_S", 0.5)
    with pytest.raises(BrokerUnavailable):
        has_topic(KafkaConnection(f"127.0.0.1:{free_ports(1)[0]}"), absent)


def test_an_absent_kafka_is_named() -> None:
    (port,) = free_ports(1)
    with (
        pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{port}"),
        topic_admin.admin_client(KafkaConnection(f"127.0.0.1:{port}"), 500),
    ):
        pass

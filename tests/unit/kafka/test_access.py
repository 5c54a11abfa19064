"""The table of rights, the ACLs that follow from it, and its copy in docs/security.md."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.topic_names import TopicNames
from fraud_rules.kafka.access import ACCESS, Acl, KafkaComponent, Operation, Resource, acls_of
from fraud_rules.kafka.acl_admin import kafka_acls_lines

TOPICS = TopicNames()
ROLES = [role.name for role in fields(TopicNames)]
PRINCIPALS = {component: f"User:fraud-{component}" for component in KafkaComponent}


def acls(*components: KafkaComponent) -> list[Acl]:
    wanted = components or tuple(KafkaComponent)
    return list(acls_of(TOPICS, "cards", {each: PRINCIPALS[each] for each in wanted}))


def writers(role: str) -> list[KafkaComponent]:
    return [component for component, access in ACCESS.items() if role in access.writes]


def readers(role: str) -> list[KafkaComponent]:
    return [component for component, access in ACCESS.items() if role in access.reads]


def written(component: KafkaComponent) -> set[str]:
    return {acl.name for acl in acls(component) if (acl.resource, acl.operation) == (Resource.TOPIC, Operation.WRITE)}


def test_every_topic_is_in_a_row(project: Project) -> None:
    text = (project.root / "docs" / "security.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`[a-z`, -]+`) \| ([^|]+ \| [^|]+) \|$", text, re.MULTILINE)
    rows = {name: parties for names, parties in table for name in re.findall(r"`([a-z-]+)`", names)}
    everywhere = {KafkaComponent.AIRFLOW, KafkaComponent.CONTROL_PLANE, KafkaComponent.OPERATOR}
    assert all(everywhere <= {*readers(role)} for role in ROLES)
    others = {role: [each for each in readers(role) if each not in everywhere] for role in ROLES}
    named = {
        getattr(TOPICS, role): f"{', '.join(writers(role)) or '-'} | {', '.join(others[role]) or '-'}" for role in ROLES
    }
    assert rows == named


def test_the_components_of_the_documentation_are_those_of_the_table(project: Project) -> None:
    text = (project.root / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| `User:fraud-\1` \| ([^|]+) \|", text, re.MULTILINE)
    assert rows == [(component.value, access.purpose) for component, access in ACCESS.items()]


def test_no_component_writes_what_another_one_decides() -> None:
    """Only the detector writes its outputs and its state, and it writes neither intents nor rules."""
    assert writers("detector_state") == writers("detector_marker") == writers("alerts") == [KafkaComponent.DETECTOR]
    assert KafkaComponent.DETECTOR not in (*writers("rules"), *writers("detector_intents"), *writers("transactions"))
    assert written(KafkaComponent.AGENT) == {"detector-attempts"}
    assert written(KafkaComponent.PRODUCER) == {"transactions"}
    assert written(KafkaComponent.CONTROL_PLANE) == {"rules"}
    assert written(KafkaComponent.CONSUMER) == set()


def test_each_transactional_id_belongs_to_one_writer() -> None:
    """Who may open the id of another writer can fence it."""
    owners: dict[str, set[str]] = {}
    for acl in acls():
        if acl.resource is Resource.TRANSACTIONAL_ID:
            owners.setdefault(acl.name, set()).add(acl.principal.removeprefix("User:fraud-"))
    assert owners == {
        "fraud-rules-cards": {"detector"},
        "fraud-agent-cards": {"agent"},
        "fraud-control-plane": {"control-plane"},
        "fraud-quarantine-quarantine": {"operator"},
        "fraud-reevaluation-cards-": {"airflow", "operator"},
    }


def test_only_airflow_changes_topics_and_nobody_deletes_them() -> None:
    changing = {acl.principal for acl in acls() if acl.operation in (Operation.CREATE, Operation.ALTER_CONFIGS)}
    assert changing == {"User:fraud-airflow"}
    assert not {acl.operation for acl in acls()} - set(Operation)
    assert "Delete" not in set(Operation)


@pytest.mark.parametrize(
    ("component", "line"),
    [
        (KafkaComponent.PRODUCER, "--operation Write --operation DescribeConfigs --topic transactions"),
        (KafkaComponent.AGENT, "--operation Write --transactional-id fraud-agent-cards"),
        (KafkaComponent.AGENT, "--operation Read --group fraud- --resource-pattern-type prefixed"),
        (KafkaComponent.AIRFLOW, "--operation Create --cluster"),
    ],
)
def test_the_lines_are_for_kafka_acls(component: KafkaComponent, line: str) -> None:
    lines = list(kafka_acls_lines("kafka:9092", acls(component)))
    begin = "kafka-acls.sh --bootstrap-server kafka:9092 --command-config admin.properties --add --allow-principal "
    assert f"{begin}{PRINCIPALS[component]} {line}" in lines


def test_a_line_has_the_topics_with_equal_operations() -> None:
    (topics,) = [line for line in kafka_acls_lines("k:1", acls(KafkaComponent.CONSUMER)) if "--topic" in line]
    assert topics.count("--topic ") == len(ACCESS[KafkaComponent.CONSUMER].reads)

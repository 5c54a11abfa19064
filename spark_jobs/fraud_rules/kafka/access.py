"""Who may write and read which topic: one table, from which Kafka's ACLs follow.

Each component has a principal of its own. Kafka's `StandardAuthorizer` with `allow.everyone.if.no.acl.found=false` (its
default) refuses everything that no ACL allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fraud_rules.configuration.topic_names import TopicNames
from fraud_rules.kafka.transactional_ids import (
    CONTROL_PLANE_NAME,
    agent_id,
    detector_id,
    quarantine_replay_id,
    reevaluation_id,
)


class KafkaComponent(StrEnum):
    """The components with a principal. The last four are programs of other teams."""

    DETECTOR = "detector"
    AGENT = "agent"
    HEARTBEAT = "heartbeat"
    AIRFLOW = "airflow"
    CONTROL_PLANE = "control-plane"
    OPERATOR = "operator"
    PRODUCER = "producer"
    RULE_TABLE = "rule-table"
    LABEL_SOURCE = "label-source"
    CONSUMER = "consumer"


class Resource(StrEnum):
    """Kafka's types of resources, by their options in kafka-acls."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


class Operation(StrEnum):
    """Kafka's operations. READ and WRITE include DESCRIBE."""

    READ = "Read"
    WRITE = "Write"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    CREATE = "Create"
    ALTER = "Alter"
    ALTER_CONFIGS = "AlterConfigs"


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a component: the roles of its topics (`TopicNames`), and prefixes of consumer groups.

    A component that `administers` topics may create and change them, but not delete them.
    """

    purpose: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    administers: bool = False


_ALL: Final = tuple(role.name for role in fields(TopicNames))
_OUR_GROUPS: Final = ("fraud-",)
_SPARK_GROUPS: Final = ("fraud-", "spark-kafka-")
_OUTPUTS: Final = (
    "alerts", "shadow_alerts", "decisions", "restrictions", "late_transactions", "quarantine", "rule_operations",
    "current_rules", "detector_progress", "latency", "evaluations",
)  # fmt: skip

ACCESS: Final[Mapping[KafkaComponent, Access]] = MappingProxyType(
    {
        KafkaComponent.DETECTOR: Access(
            "driver and tasks of the detector",
            writes=(*_OUTPUTS, "detector_marker", "detector_state", "data_health"),
            reads=(
                "transactions", "rules", "detector_marker", "detector_state", "detector_progress",
                "detector_intents", "warm_ups", "data_health",
            ),
            groups=_SPARK_GROUPS,
        ),
        KafkaComponent.AGENT: Access(
            "agent on the detector's host",
            writes=("detector_attempts",),
            reads=("detector_intents", "detector_attempts", "detector_progress"),
            groups=_OUR_GROUPS,
        ),
        KafkaComponent.HEARTBEAT: Access(
            "`fraud detector heartbeat`, the check of the supervisor from outside",
            reads=("detector_attempts",),
            groups=_OUR_GROUPS,
        ),
        KafkaComponent.AIRFLOW: Access(
            "tasks and triggers: supervision, topics, seed rules, archive, re-evaluation, warm-ups",
            writes=(
                "detector_intents", "detector_attempts", "rules", "alert_corrections", "restrictions", "warm_ups",
                "rule_operations", "alarms",
            ),
            reads=_ALL,
            groups=_SPARK_GROUPS,
            administers=True,
        ),
        KafkaComponent.CONTROL_PLANE: Access(
            "server of the control plane",
            writes=("rules",),
            reads=_ALL,
            groups=_OUR_GROUPS,
        ),
        KafkaComponent.OPERATOR: Access(
            "`fraud` in a terminal",
            writes=(
                "rules", "detector_intents", "transactions", "quarantine_replays", "alert_corrections", "restrictions",
                "warm_ups", "rule_operations",
            ),
            reads=_ALL,
            groups=_SPARK_GROUPS,
        ),
        KafkaComponent.PRODUCER: Access("producers of payments", writes=("transactions",)),
        KafkaComponent.RULE_TABLE: Access("CDC connector of an external rule table", writes=("rules_cdc",)),
        KafkaComponent.LABEL_SOURCE: Access("programs that report chargebacks and other labels", writes=("labels",)),
        KafkaComponent.CONSUMER: Access(
            "consumers of results",
            reads=(
                "alerts", "shadow_alerts", "decisions", "restrictions", "alert_corrections", "late_transactions",
                "quarantine", "detector_progress", "transactions",
            ),
            groups=("payment-",),
        ),
    }
)  # fmt: skip
"""The table. docs/security.md shows it."""


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One ACL that allows an operation. With `prefixed`, `name` is the beginning of the resources' names."""

    principal: str
    resource: Resource
    name: str
    prefixed: bool
    operation: Operation

    def __str__(self) -> str:
        named = f"{self.resource} {self.name}" + ("*" if self.prefixed else "")
        return f"{self.principal}: {self.operation} on {named}"


def acls_of(
    topics: TopicNames, detector: str, principals: Mapping[KafkaComponent, str], control_plane: str = CONTROL_PLANE_NAME
) -> Sequence[Acl]:
    """The ACLs of the components with a principal, in the order of the table.

    `control_plane` is the name of the control plane in its settings.
    """
    ids = _transactional_ids(topics, detector, control_plane)
    return [
        acl
        for component, principal in principals.items()
        for acl in (*_base(principal, ACCESS[component], topics), *_of_ids(principal, ids.get(component, ())))
    ]


def _base(principal: str, access: Access, topics: TopicNames) -> Iterator[Acl]:
    for role in _ALL:
        operations = [
            operation
            for operation, allowed in (
                (Operation.WRITE, role in access.writes),
                (Operation.READ, role in access.reads),
                (Operation.DESCRIBE_CONFIGS, role in access.writes or role in access.reads),
                (Operation.ALTER, access.administers),
                (Operation.ALTER_CONFIGS, access.administers),
            )
            if allowed
        ]
        yield from (Acl(principal, Resource.TOPIC, getattr(topics, role), False, each) for each in operations)
    for group in access.groups:
        yield Acl(principal, Resource.GROUP, group, True, Operation.READ)
    if access.administers:
        yield Acl(principal, Resource.CLUSTER, "kafka-cluster", False, Operation.CREATE)


def _of_ids(principal: str, ids: Sequence[tuple[str, bool]]) -> Iterator[Acl]:
    for name, prefixed in ids:
        yield Acl(principal, Resource.TRANSACTIONAL_ID, name, prefixed, Operation.WRITE)


def _transactional_ids(
    topics: TopicNames, detector: str, control_plane: str
) -> Mapping[KafkaComponent, Sequence[tuple[str, bool]]]:
    """The transactional ids of each component, and whether each is a prefix."""
    reevaluation = (reevaluation_id(detector), True)
    return {
        KafkaComponent.DETECTOR: [(detector_id(detector), False)],
        KafkaComponent.AGENT: [(agent_id(detector), False)],
        KafkaComponent.AIRFLOW: [reevaluation],
        KafkaComponent.CONTROL_PLANE: [(control_plane, False)],
        KafkaComponent.OPERATOR: [(quarantine_replay_id(topics.quarantine), False), reevaluation],
    }

"""Topics under a prefix, which a test or a measurement has for itself, on a broker that others use too."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.declared import Topic, load_topics
from fraud_rules.runtime.retry import wait_for

_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class OwnTopics:
    """Topics under a unique prefix: `names` of all declared topics by role, `declared` as created.

    If `timed` is true, the test sets the timestamps of the two logs, see `timed_topics`.
    """

    bootstrap: str
    prefix: str
    names: TopicNames
    declared: tuple[Topic, ...]
    timed: bool = False

    @property
    def kafka(self) -> KafkaConnection:
        """The connection settings of a client."""
        return KafkaConnection(self.bootstrap)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a program use these topics."""
        names = {f"FRAUD_TOPICS_{each.name.upper()}": getattr(self.names, each.name) for each in fields(TopicNames)}
        return {"FRAUD_BOOTSTRAP": self.bootstrap, **names}


def named(prefix: str) -> TopicNames:
    """The names of all topics under a prefix."""
    return TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})


@cache
def _declared(path: Path) -> tuple[Topic, ...]:
    """The declared topics. Each test creates some of them, and YAML takes as long as a request."""
    return load_topics(path)


def create_topics(
    broker: Broker,
    project: Project,
    roles: Collection[str] | None = None,
    *,
    prefix: str | None = None,
    changed: Callable[[str, Topic], Topic] = lambda _, topic: topic,
    timed: bool = False,
) -> OwnTopics:
    """Create the declared topics of these roles (default: all) under a prefix, a unique one if none is given. `changed`
    gets each role with its declared topic, and returns the topic to create."""
    prefix = f"t{uuid.uuid4().hex[:8]}-" if prefix is None else prefix
    names = named(prefix)
    role_of = {getattr(names, field.name): field.name for field in fields(TopicNames)}
    prefixed = (replace(topic, name=prefix + topic.name) for topic in _declared(project.config / "topics.yaml"))
    declared = tuple(
        changed(role_of[topic.name], topic) for topic in prefixed if roles is None or role_of[topic.name] in roles
    )
    topic_admin.apply(broker.kafka, declared)
    return OwnTopics(broker.bootstrap, prefix, names, declared, timed)


def delete_topics(kafka: KafkaConnection, topics: Sequence[Topic]) -> None:
    """Delete the existing topics among these, with all their records, and wait until the brokers no longer show them:
    `apply` would take a topic that they still show for the new one.
    """
    declared = {topic.name for topic in topics}
    with topic_admin.admin_client(kafka) as client:
        names = declared.intersection(client.list_topics())
        if not names:
            return
        client.delete_topics(sorted(names), timeout_ms=_TIMEOUT_S * 1_000)

        def timed_out() -> BrokerUnavailable:
            return BrokerUnavailable(f"the brokers still show deleted topics: {', '.join(sorted(names))}")

        wait_for(
            lambda: names.isdisjoint(client.list_topics()),
            within_s=_TIMEOUT_S,
            every_s=0.05,
            timed_out=timed_out,
        )


@contextmanager
def own_topics(broker: Broker, project: Project, roles: Collection[str] | None = None) -> Iterator[OwnTopics]:
    """Create topics as `create_topics` does, and delete them at the end of the block."""
    topics = create_topics(broker, project, roles)
    yield topics
    delete_topics(broker.kafka, topics.declared)

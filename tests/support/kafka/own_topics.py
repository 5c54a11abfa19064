"""Topics of one test on the broker that all tests share."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.declared import Topic, load_topics


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


@contextmanager
def own_topics(broker: Broker, project: Project, roles: Collection[str] | None = None) -> Iterator[OwnTopics]:
    """Create the declared topics of these roles (default: all) under a unique prefix, and delete them at the end of the
    block."""
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    names = TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})
    wanted = None if roles is None else {getattr(names, role) for role in roles}
    every = load_topics(project.config / "topics.yaml", prefix)
    declared = tuple(topic for topic in every if wanted is None or topic.name in wanted)
    topic_admin.apply(broker.kafka, declared)
    yield OwnTopics(broker.bootstrap, prefix, names, declared)
    topic_admin.delete(broker.kafka, declared)

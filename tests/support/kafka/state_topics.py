"""The topics of the state and of the marker only, for tests without a detector."""

from __future__ import annotations

import uuid
from dataclasses import fields, replace

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.declared import load_topics
from tests.support.kafka.own_topics import OwnTopics


def state_topics(broker: Broker, project: Project, **settings: str) -> OwnTopics:
    """Create the topics of the state and of the marker, with these settings of the state's topic."""
    prefix = f"s{uuid.uuid4().hex[:8]}-"
    names = TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})
    wanted = (names.detector_state, names.detector_marker)
    declared = tuple(topic for topic in load_topics(project.config / "topics.yaml", prefix) if topic.name in wanted)
    declared = tuple(
        replace(topic, partitions=2, settings=tuple((dict(topic.settings) | settings).items()))
        if topic.name == names.detector_state
        else topic
        for topic in declared
    )
    topic_admin.apply(broker.kafka, declared)
    return OwnTopics(broker.bootstrap, prefix, names, declared)

"""The topics of the state and of the marker only, for tests without a detector."""

from __future__ import annotations

from dataclasses import replace

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.declared import Topic
from tests.support.kafka.own_topics import OwnTopics, create_topics


def state_topics(broker: Broker, project: Project, **settings: str) -> OwnTopics:
    """Create the topics of the state and of the marker, with these settings of the state's topic."""

    def changed(role: str, topic: Topic) -> Topic:
        own = tuple((dict(topic.settings) | settings).items())
        return replace(topic, partitions=2, settings=own) if role == "detector_state" else topic

    return create_topics(broker, project, ("detector_state", "detector_marker"), changed=changed)

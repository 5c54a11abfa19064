"""Finds what a cluster refuses of declared topics. Managed clusters fix some settings, limit others, and may not let
clients create topics.

The broker only validates the requests, so nothing changes. A refused request is repeated for each of its settings
alone, because its message may not name the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import NoError, TopicAlreadyExistsError, for_code

from fraud_rules.kafka.declared import REPLICATION, Topic

_TIMEOUT_MS: Final = 30_000
_MOST_WORDS: Final = 300
_DEFAULT: Final = -1

# A concurrent apply may have created a topic. The next apply shows whether its settings differ.
_HARMLESS: Final = frozenset({NoError.errno, TopicAlreadyExistsError.errno})


@dataclass(frozen=True, slots=True)
class UnsupportedSetting:
    """A setting that a cluster refuses, by Kafka's name. An empty `setting` means the creation of the topic.

    `words` is the broker's message.
    """

    topic: str
    setting: str
    declared: str
    words: str

    def __str__(self) -> str:
        what = f"{self.setting}={self.declared}" if self.setting else "its creation"
        return f"{self.topic}: {what} ({self.words})"


def topic_request(topic: Topic) -> dict[str, Any]:
    """The creation of a topic for `KafkaAdminClient.create_topics`."""
    return _request(topic, topic.replication or _DEFAULT, topic.kafka_settings)


def unsupported_in_creations(client: KafkaAdminClient, topics: Sequence[Topic]) -> list[UnsupportedSetting]:
    """What the cluster refuses of the creation of these topics."""
    words = creation_faults(client, {topic.name: topic_request(topic) for topic in topics}, validate_only=True)
    return [each for topic in topics if topic.name in words for each in _of_creation(client, topic, words[topic.name])]


def unsupported_in_change(
    client: KafkaAdminClient, topic: str, settings: Mapping[str, str]
) -> list[UnsupportedSetting]:
    """What the cluster refuses of new settings for an existing topic."""

    def fault(changed: Mapping[str, str]) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(changed))
        answer = client.alter_configs([resource], validate_only=True, incremental=True, raise_on_unknown=False)
        said = answer["topic"][topic]
        return "" if said == "OK" else _shortened(said)

    together = fault(settings) if settings else ""
    if not together:
        return []
    return list(_alone(topic, settings, fault)) or [
        UnsupportedSetting(topic, name, declared, together) for name, declared in settings.items()
    ]


def _of_creation(client: KafkaAdminClient, topic: Topic, together: str) -> Iterator[UnsupportedSetting]:
    """The refused settings of a topic whose creation is refused. If no setting is refused alone, the creation is."""

    def fault(replication: int, settings: Mapping[str, str]) -> str:
        request = {topic.name: _request(topic, replication, settings)}
        return creation_faults(client, request, validate_only=True).get(topic.name, "")

    if bare := fault(_DEFAULT, {}):
        yield UnsupportedSetting(topic.name, "", "", bare)
        return
    found = list(_alone(topic.name, topic.kafka_settings, lambda settings: fault(_DEFAULT, settings)))
    if topic.replication and (said := fault(topic.replication, {})):
        found.insert(0, UnsupportedSetting(topic.name, REPLICATION, str(topic.replication), said))
    yield from found or [UnsupportedSetting(topic.name, "", "", together)]


def _alone(
    topic: str, settings: Mapping[str, str], fault: Callable[[Mapping[str, str]], str]
) -> Iterator[UnsupportedSetting]:
    for name, declared in settings.items():
        if said := fault({name: declared}):
            yield UnsupportedSetting(topic, name, declared, said)


def creation_faults(
    client: KafkaAdminClient, requests: Mapping[str, Mapping[str, Any]], *, validate_only: bool
) -> dict[str, str]:
    """Create topics, or only ask for it. Returns the broker's messages by topic; created and existing ones have none.

    Raises KafkaError if the broker cannot answer now.
    """
    if not requests:
        return {}
    answer = client.create_topics(requests, timeout_ms=_TIMEOUT_MS, validate_only=validate_only, raise_errors=False)
    faults: dict[str, str] = {}
    for entry in answer["topics"]:
        kind, words = for_code(entry["error_code"]), entry.get("error_message")
        if kind.retriable:
            raise kind(words)
        if kind.errno not in _HARMLESS:
            faults[entry["name"]] = _shortened(words or kind.__name__)
    return faults


def _request(topic: Topic, replication: int, settings: Mapping[str, str]) -> dict[str, Any]:
    return {"num_partitions": topic.partitions, "replication_factor": replication, "configs": dict(settings)}


def _shortened(said: object) -> str:
    return " ".join(str(said).split())[:_MOST_WORDS]

"""Checks whether the configuration of the detector's topics allows correct results.

The detector needs the broker's timestamps: rules apply by them, and a wrong producer clock could move the watermark. A
compacted topic loses records that the detector has read or has yet to read. The topics of the state and of the markers,
on the other hand, must be compacted: with any other policy, Kafka would remove state and markers that are in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from fraud_rules.configuration.topic_names import TopicNames
from fraud_rules.errors import BrokerUnavailable, TopicUnsuitable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import describe, has_topic, mapped_errors
from fraud_rules.kafka.writer import MAX_RECORD_BYTES

_TIMEOUT_S = 15.0
_TIMESTAMP, _CLEANUP, _MAX_BYTES = "message.timestamp.type", "cleanup.policy", "max.message.bytes"
_MIN_IN_SYNC = "min.insync.replicas"


def check_topics(kafka: KafkaConnection, names: TopicNames, *, producer_times: bool = False) -> None:
    """Raise TopicUnsuitable for a wrong setting of the transactions, the rule log, the state or the markers, for a
    topic of large records with a low limit, or if the topic of the decisions does not exist. Raises
    BrokerUnavailable."""
    faults = [*_faults_of_inputs(kafka, names, producer_times=producer_times), *checkpoint_faults(kafka, names)]
    for name in (names.warm_ups, names.quarantine):
        if has_topic(kafka, name):
            faults += _faults_of_limit(name, settings_of_topic(kafka, name), "a large record")
    if not has_topic(kafka, names.decisions):
        faults.append(f"{names.decisions} does not exist; create it (fraud kafka topics apply)")
    if faults:
        raise TopicUnsuitable("; ".join(faults))


def check_inputs(kafka: KafkaConnection, names: TopicNames, *, producer_times: bool = False) -> None:
    """Raise TopicUnsuitable for a wrong setting of the transactions or the rule log. Raises BrokerUnavailable."""
    if faults := _faults_of_inputs(kafka, names, producer_times=producer_times):
        raise TopicUnsuitable("; ".join(faults))


def checkpoint_faults(kafka: KafkaConnection, names: TopicNames) -> list[str]:
    """The faults of the settings of the topics of the state and of the markers, if they exist. Raises
    BrokerUnavailable."""
    found: list[str] = []
    if has_topic(kafka, names.detector_state):
        found += faults_of_state(names.detector_state, settings_of_topic(kafka, names.detector_state))
    if has_topic(kafka, names.detector_marker):
        found += _faults_of_policy(names.detector_marker, settings_of_topic(kafka, names.detector_marker), "markers")
    return found


def _faults_of_inputs(kafka: KafkaConnection, names: TopicNames, *, producer_times: bool) -> list[str]:
    return [
        fault
        for name in (names.transactions, names.rules)
        for fault in faults_of(name, settings_of_topic(kafka, name), producer_times=producer_times)
    ]


def faults_of(topic: str, settings: Mapping[str, str | None], *, producer_times: bool = False) -> Iterator[str]:
    """The faults of a topic's settings, each with a command that corrects it. Pure.

    `producer_times`: the timestamps of producers are accepted.
    """
    if (actual := settings.get(_TIMESTAMP)) != "LogAppendTime" and not producer_times:
        yield (
            f"{topic} has {_TIMESTAMP}={actual}, so a wrong clock of one producer would make later transactions late; "
            "set LogAppendTime (fraud kafka topics apply)"
        )
    if "compact" in ((actual := settings.get(_CLEANUP)) or ""):
        yield (
            f"{topic} has {_CLEANUP}={actual}, so Kafka removes older records of a key; set delete "
            f"(kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {_CLEANUP}=delete)"
        )


def faults_of_state(topic: str, settings: Mapping[str, str | None]) -> Iterator[str]:
    """The faults of the settings of the state's topic, each with a command that corrects it. Pure."""
    yield from _faults_of_policy(topic, settings, "state")
    yield from _faults_of_limit(topic, settings, "a chunk of the state")


def _faults_of_policy(topic: str, settings: Mapping[str, str | None], content: str) -> Iterator[str]:
    if (actual := settings.get(_CLEANUP)) != "compact":
        yield (
            f"{topic} has {_CLEANUP}={actual}, so Kafka may remove {content} in use; set compact "
            f"(kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {_CLEANUP}=compact)"
        )


def _faults_of_limit(topic: str, settings: Mapping[str, str | None], content: str) -> Iterator[str]:
    if int((actual := settings.get(_MAX_BYTES)) or 0) < MAX_RECORD_BYTES:
        fault = f"{topic} has {_MAX_BYTES}={actual}, too little for {content}"
        yield f"{fault}; set {MAX_RECORD_BYTES} (fraud kafka topics apply)"


def partitions_short_of_replicas(kafka: KafkaConnection, topics: Sequence[str]) -> list[str]:
    """The partitions with too few replicas in sync for a write, as texts. Raises BrokerUnavailable."""
    admin = AdminClient(kafka.confluent({"log_level": 2}))
    with mapped_errors(kafka):
        answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
        partitions = {topic: answer.result().partitions for topic, answer in answers.items()}
    least = {topic: int(settings_of_topic(kafka, topic)[_MIN_IN_SYNC] or 1) for topic in topics}
    return [
        f"{topic}-{each.id} has {len(each.isr)} of {len(each.replicas)} replicas in sync, and needs {least[topic]}"
        for topic in topics
        for each in partitions[topic]
        if len(each.isr) < least[topic]
    ]


def settings_of_topic(kafka: KafkaConnection, topic: str) -> dict[str, str | None]:
    """The settings of a topic that exists, by Kafka's names. Raises BrokerUnavailable."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient(kafka.confluent({"log_level": 2}))
    try:
        answer = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
        return {name: entry.value for name, entry in answer[resource].result().items()}
    except KafkaException as error:
        raise BrokerUnavailable(f"Kafka at {kafka} does not describe {topic}: {describe(error)}") from error

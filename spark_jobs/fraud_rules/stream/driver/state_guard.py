"""Checks at a start that the topic `detector-state` still holds the state that the marker names.

The check compares offsets and ids only. A task that restores a key group checks the content, see `worker.state_log`.
"""

from __future__ import annotations

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointForeign, StateDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of
from fraud_rules.kafka.reader import TopicReader, has_topic, topic_ids
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.state_position import StatePosition, empty_position

_REMEDY = "restore the topic, or rebuild the state (fraud detector rebuild)"


def new_position(kafka: KafkaConnection, settings: DetectorSettings) -> StatePosition:
    """The position of an empty state at the current end of the topic."""
    topic = settings.topics.detector_state
    ends = _offsets(kafka, topic, settled=True)
    return empty_position(
        topic_ids(kafka, [topic])[topic], [first for first, _ in ends], [end for _, end in ends], settings.key_groups
    )


def check_state(
    kafka: KafkaConnection, settings: DetectorSettings, marker: Marker, *, settled: bool = True
) -> StatePosition:
    """Check the state at the marker, and return it.

    Raises StateDamaged if the topic was deleted, created again or truncated, or has another number of partitions, or
    if an earlier version wrote the marker.

    Without `settled`, an open transaction may hide the end of a partition, so the error can be wrong.
    Raises CheckpointForeign if the state has another number of key groups, TransactionOpen and BrokerUnavailable.
    """
    topic, known = settings.topics.detector_state, marker.state
    if known is None:
        raise StateDamaged(
            f"an earlier version wrote batch {marker.batch_id} and kept the state in the checkpoint, not in {topic}: "
            "rebuild the state (fraud detector rebuild)"
        )
    if len(known.versions) != settings.key_groups:
        raise CheckpointForeign(
            f"{topic} has the state of {len(known.versions)} key groups, but the settings say {settings.key_groups}: "
            "use the original setting, or rebuild the state (fraud detector rebuild)"
        )
    if not has_topic(kafka, topic):
        raise StateDamaged(f"the topic {topic} was deleted, and with it the detector's state: {_REMEDY}")
    if topic_ids(kafka, [topic])[topic] != known.topic_id:
        raise StateDamaged(f"the topic {topic} was created again and has lost the detector's state: {_REMEDY}")
    now = _offsets(kafka, topic, settled=settled)
    if len(now) != known.partitions:
        raise StateDamaged(
            f"the topic {topic} has {len(now)} partitions, but the state was written with {known.partitions}: "
            "rebuild the state (fraud detector rebuild)"
        )
    for partition, (first, end) in enumerate(now):
        if first > known.starts[partition] or end < known.ends[partition]:
            raise StateDamaged(
                f"{topic}-{partition} was truncated: it has the offsets {first} to {end}, but the state needs "
                f"{known.starts[partition]} to {known.ends[partition]}: {_REMEDY}"
            )
    return known


def _offsets(kafka: KafkaConnection, topic: str, *, settled: bool) -> list[tuple[int, int]]:
    with TopicReader(kafka, topic) as reader:
        return list(ends_of(reader, settled=settled).values())

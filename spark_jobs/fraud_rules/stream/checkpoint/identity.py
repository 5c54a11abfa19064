"""Checks that settings, schema and topics fit a checkpoint, and that the checkpoint fits the other topics of Kafka.

The checks change nothing. They compare the marker with records of the detector in other topics, because a marker that
is missing or old would let the detector write its outputs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.logs.batch_history import WrittenBatch
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.checkpoint.marker import REBUILD, Marker


def declared_fields(schema: TransactionSchema) -> dict[str, list[Any]]:
    """What stays fixed of each declared field and entity for the life of a checkpoint, by name. An entity counts as
    nullable, so that a release can add one."""
    fields = {field.name: [field.type.value, field.nullable, field.scale, *field.normalize] for field in schema.fields}
    return fields | {each.name: ["entity", True, 0, *map(list, each.roles)] for each in schema.entities}


def check_new(
    kafka: KafkaConnection, settings: DetectorSettings, found: WrittenBatch | None, *, settled: bool = True
) -> None:
    """Raise CheckpointDamaged if a detector without a marker has evaluated batches. `found` is its `last_batch`.

    Without `settled`, an open transaction may hide its state. Raises TransactionOpen, BrokerUnavailable.
    """
    names = settings.topics
    if found is not None:
        where, remedy = f"{names.detector_progress} names batch {found.batch_id}", REBUILD
    elif StateTopic(kafka, names.detector_state, settings.detector, 1).has_records(settled=settled):
        where, remedy = f"{names.detector_state} has its state", "give the detector another name"
    else:
        return
    raise CheckpointDamaged(
        f"{names.detector_marker} has no marker of {settings.detector}, but {where}: a start would write all alerts "
        f"again. Restore {names.detector_marker}, or {remedy}"
    )


def check_history(settings: DetectorSettings, marker: Marker, found: WrittenBatch | None) -> None:
    """Raise CheckpointDamaged if the progress records name a later batch than the marker, or another history.

    `found` is the `last_batch` of the detector. While a detector works, read it before the marker: each batch writes
    both, so the marker is never older than a progress record that was read earlier.
    """
    if found is None or (found.query_id == marker.query_id and found.batch_id <= marker.batch_id):
        return
    names = settings.topics
    raise CheckpointDamaged(
        f"{names.detector_marker} ends at batch {marker.batch_id} of {marker.query_id}, but {names.detector_progress} "
        f"names batch {found.batch_id} of {found.query_id}: the marker is an older copy. Restore it, or {REBUILD}"
    )


def check_topics(marker: Marker, topics: Mapping[str, str], transactions: str) -> None:
    """Raise CheckpointForeign if the offsets belong to other topics. `topics` are Kafka's present ids, by name.

    The topic of the transactions may have been created again: that is a loss of records, which a person can accept.
    """
    for topic, found in topics.items():
        known = marker.topics.get(topic)
        if known is None and marker.topics:
            raise CheckpointForeign(
                f"the checkpoint has no offsets of the topic {topic}, but of {', '.join(sorted(marker.topics))}: use "
                "the original topic names, or give the detector another name"
            )
        if known not in (None, found) and topic != transactions:
            raise CheckpointForeign(
                f"the checkpoint has offsets of an earlier topic {topic} (id {known}, now {found}), which are invalid "
                "here: restore the topic, or give the detector another name"
            )


def is_recreated(marker: Marker, topics: Mapping[str, str], topic: str) -> bool:
    """Whether a topic was deleted and created again. `topics` are Kafka's present ids, by name."""
    return marker.topics.get(topic) not in (None, topics[topic])


def check_fields(marker: Marker, schema: TransactionSchema) -> None:
    """Raise CheckpointForeign if a declared field differs from the one that the state was made with."""
    known, wanted = marker.fields, declared_fields(schema)
    if known is None:
        return
    for name, kind in known.items():
        if name in marker.added_fields and name not in wanted:
            continue
        if wanted.get(name) != kind:
            raise CheckpointForeign(
                f"the checkpoint was made with field {name} as {kind}, now {wanted.get(name)}: a field in use cannot "
                "change; declare a new one beside it"
            )
    for name in wanted.keys() - known.keys():
        if not wanted[name][1]:
            raise CheckpointForeign(
                f"the checkpoint was made without field {name}: a field added later must be nullable"
            )


def added_fields(marker: Marker, schema: TransactionSchema) -> dict[str, Any]:
    """The changes of the marker that record the fields of this release.

    A field that a release adds stays in the marker, so that no later release declares it differently. A release without
    the field can continue: it ignores the field in existing rows and writes rows without it.
    """
    wanted = declared_fields(schema)
    if marker.fields is None:
        return {"fields": wanted}
    new = sorted(wanted.keys() - marker.fields.keys())
    return {
        "fields": {**marker.fields, **{name: wanted[name] for name in new}},
        "added_fields": [*marker.added_fields, *new],
    }

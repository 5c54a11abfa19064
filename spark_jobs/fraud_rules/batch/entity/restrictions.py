"""Reads the restrictions of the keys of one entity."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fraud_rules.batch.entity.rows import EntityQuery
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.model.schema import TransactionSchema

_NEWEST: Final = 200_000
_SHOWN: Final = 200


class KeyRestriction(msgspec.Struct, frozen=True, rename="camel"):
    """A restriction of a key that names the entity. `lifted` is the time at which a correction ended it."""

    alert_id: str
    rule_id: int
    key: dict[str, Any]
    since: int
    lifted: int | None = None


_decode = msgspec.json.Decoder(KeyRestriction).decode


def read_restrictions(
    kafka: KafkaConnection, topic: str, query: EntityQuery, schema: TransactionSchema, notes: list[str]
) -> list[KeyRestriction]:
    """The newest restrictions of an entity, newest first, those in force before the lifted ones. `notes` says if older
    records were not read. Raises BrokerUnavailable."""
    names = {query.field, *(each.name for each in schema.entities if query.field in each.fields)}
    text, found = msgspec.json.encode(query.value), dict[str, KeyRestriction]()
    with TopicReader(kafka, topic) as reader:
        first, end = reader.ends()
        if end - first > _NEWEST:
            notes.append(f"Only the newest {_NEWEST:,} records of the topic of restrictions were searched.")
        for record in reader.read(max(first, end - _NEWEST), end):
            if record.value is None or text not in record.value:  # cheaper than decoding
                continue
            restriction = decode_or_skip(topic, record, _decode)
            if restriction is not None and any(restriction.key.get(name) == query.value for name in names):
                found[restriction.alert_id] = restriction
    newest = sorted(found.values(), key=lambda each: (each.lifted is not None, -each.since))
    return newest[:_SHOWN]

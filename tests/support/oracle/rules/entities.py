"""Entities with roles: the rows of a transaction in a grouping by an entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.stream import ROLE, Document, Grouping, Row

MOST_ROLES = 4


@dataclass(frozen=True)
class Entity:
    """An entity of the schema: the field of each of its roles, in the order of the schema."""

    name: str
    roles: Mapping[str, str]


def entities_of(document: Document, schema: TransactionSchema) -> list[Entity]:
    """The entities that the document or else the schema declares."""
    if "entities" in document:
        return [Entity(each["name"], each["roles"]) for each in document["entities"]]
    return [Entity(each.name, dict(each.roles)) for each in getattr(schema, "entities", ())]


def entity_of(grouping: Grouping, entities: Sequence[Entity]) -> Entity | None:
    """The entity in a grouping: one at most."""
    return next((entity for entity in entities if entity.name in grouping), None)


def rows_of(row: Row, entity: Entity | None) -> list[Row]:
    """The rows of a transaction in a grouping, in order of arrival: one, or one for each role that is not null."""
    if entity is None:
        return [row]
    return [
        replace(
            row,
            arrival=row.arrival * MOST_ROLES + position,
            values={**row.values, entity.name: row.values[field], ROLE: role},
        )
        for position, (role, field) in enumerate(entity.roles.items())
        if row.values[field] is not None
    ]

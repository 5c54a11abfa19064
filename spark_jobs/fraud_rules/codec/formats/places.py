"""The places of a record that the declared fields read. Formats with types of their own decode or check only these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from fraud_rules.model.declared.field_source import Path
from fraud_rules.model.schema import Envelope, Field, TransactionSchema

Places: TypeAlias = "dict[str | int, Places]"
"""The places of all fields as a tree of path segments. A leaf is empty."""


@dataclass(frozen=True, slots=True)
class FieldPlaces:
    """The places where a record may hold one field. A `required` field must be at one of them."""

    name: str
    paths: tuple[Path, ...]
    required: bool


_MARKS: Final[Mapping[Envelope, tuple[FieldPlaces, ...]]] = {
    Envelope.DEBEZIUM: (FieldPlaces("op", (("op",), ("payload", "op")), required=True),),
    Envelope.CLOUDEVENTS: (
        FieldPlaces("specversion", (("specversion",),), required=True),
        FieldPlaces("data_base64", (("data_base64",),), required=False),
    ),
}
"""The further members of an envelope that its reader needs."""


def places_of(schema: TransactionSchema) -> tuple[FieldPlaces, ...]:
    """The places of the fields that the value of a record holds, and of the members of the envelope."""
    return (
        *_MARKS.get(schema.unwrap, ()),
        *(FieldPlaces(field.name, _paths(field, schema.unwrap), not field.nullable) for field in schema.in_value),
    )


def _paths(field: Field, envelope: Envelope) -> tuple[Path, ...]:
    return tuple((*payment, *path) for payment in envelope.payments for path in field.paths)


def tree_of(fields: Iterable[FieldPlaces]) -> Places:
    """The places of all fields as one tree."""
    tree: Places = {}
    for path in (path for field in fields for path in field.paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
    return tree

"""The typed decoder of a schema's JSON records, and the access to each field in the decoded records.

The decoder is a tree of msgspec structs with one member for each declared place. A member is optional if a record can
be valid without it. Undeclared members are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from fraud_rules.codec.scalar import EPOCH_BOUNDS, INT64_MAX, INT64_MIN
from fraud_rules.codec.transactions.field_value import MAX_TEXT_LENGTH
from fraud_rules.model.declared.field_source import TimeUnit
from fraud_rules.model.schema import Envelope, Field, FieldType, TransactionSchema

Cell: TypeAlias = Any
"""The decoded value of a member: int, str, bool, Raw, None for null, UNSET for an absent member."""

Getter: TypeAlias = Callable[[Any], Cell]

Place: TypeAlias = tuple[str, ...]
"""The names of the members on the way to a value of a record."""

_EPOCHS: Final[dict[TimeUnit, Any]] = {
    unit: Annotated[int, Meta(ge=low, le=high)] for unit, (low, high) in EPOCH_BOUNDS.items()
}
_EPOCHS[TimeUnit.ISO8601] = str
_TYPES: Final[dict[FieldType, Any]] = {
    FieldType.LONG: Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)],
    FieldType.TIMESTAMP: _EPOCHS[TimeUnit.MS] | str,
    FieldType.STRING: Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)],
    FieldType.DECIMAL: Raw,
    FieldType.BOOLEAN: bool,
}
_ABSENT: Final = {("payload", "after"): ("op",), ("data",): ("data_base64",)}
"""The members whose presence means another form, by the path of the payment."""


@dataclass(frozen=True, slots=True)
class JsonLayout:
    """One form of a schema's records.

    `decode` decodes a record. `getters` has for each field a getter for each place at which a record may have it.
    `absent` are getters of members that a record of this form does not have. `names` has the places of all members on
    the declared paths by their names, as a JSON text writes them between quotes. `objects` are the paths of the objects
    that contain these members, the record first.
    """

    decode: Callable[[bytes], Any]
    getters: Mapping[str, Mapping[Place, Getter]]
    absent: Sequence[Getter]
    names: Mapping[bytes, Sequence[Place]]
    objects: Sequence[Place]

    @property
    def is_flat(self) -> bool:
        """Whether all declared members are in the record itself."""
        return len(self.objects) == 1


def layouts_of(schema: TransactionSchema) -> list[JsonLayout]:
    """The forms of a schema's records: one, or two for an envelope that may be inside another one.

    A schema that reads elements of arrays, or nothing of the value, has none, so that the careful reader reads its
    records.
    """
    fields = schema.in_value
    if not fields or any(isinstance(part, int) for each in fields for part in each.source.path):
        return []
    return [_layout(fields, schema.unwrap, prefix) for prefix in schema.unwrap.payments]


@dataclass(slots=True)
class _Node:
    """A place in a record: a value of the type `kind`, or an object with further places."""

    kind: Any = None
    required: bool = False
    members: dict[str, _Node] = field(default_factory=dict)

    def at(self, path: Sequence[str]) -> _Node:
        """The node at a path, which is added if there is none."""
        return reduce(lambda node, name: node.members.setdefault(name, _Node()), path, self)

    def type(self) -> Any:
        """The type of the place for msgspec."""
        if not self.members:
            return self.kind
        declared = [
            (_attribute(i), each.type()) if each.required else (_attribute(i), each.type() | UnsetType, UNSET)
            for i, each in enumerate(self.members.values())
        ]
        names = {_attribute(i): name for i, name in enumerate(self.members)}
        struct = msgspec.defstruct("Members", sorted(declared, key=len), rename=names, gc=False)
        return struct if self.required else struct | None

    def getter(self, path: Sequence[str]) -> Getter:
        """A function that returns the cell at a path of a decoded record."""
        steps, node = [], self
        for name in path:
            steps.append(_attribute(list(node.members).index(name)))
            node = node.members[name]
        quick = attrgetter(".".join(steps))
        return quick if len(steps) == 1 else lambda record: _cell(record, quick, steps)

    def places(self, path: Place = ()) -> Iterator[Place]:
        """The paths of this node and of all members below it, from outside to inside."""
        yield path
        for name, node in self.members.items():
            yield from node.places((*path, name))


def _attribute(position: int) -> str:
    return f"member_{position}"


def _cell(record: Any, quick: Getter, steps: Sequence[str]) -> Cell:
    try:
        return quick(record)
    except AttributeError:  # an object on the way is null or absent
        value = record
        for step in steps:
            if value is None or value is UNSET:
                return UNSET
            value = getattr(value, step)
        return value


def _layout(fields: Sequence[Field], envelope: Envelope, prefix: Place) -> JsonLayout:
    root = _Node(required=True)
    places = {each.name: [(*prefix, *map(str, path)) for path in each.paths] for each in fields}
    for each in fields:
        for path in places[each.name]:
            node = root.at(path)
            node.kind = _kind(each)
            node.required = len(path) == 1 and not (each.nullable or each.aliases or each.source.path)
    if envelope is Envelope.DEBEZIUM:
        guard = root.at((*prefix[:-1], "op"))
        guard.kind, guard.required = Literal["c"], True
    if envelope is Envelope.CLOUDEVENTS:
        guard = root.at(("specversion",))
        guard.kind, guard.required = Raw, True
    absent = _ABSENT.get(prefix, ())
    for name in absent:
        root.at((name,)).kind = Raw
    names: dict[bytes, list[Place]] = {}
    for path in list(root.places())[1:]:
        names.setdefault(msgspec.json.encode(path[-1])[1:-1], []).append(path)
    return JsonLayout(
        decode=msgspec.json.Decoder(root.type()).decode,
        getters={name: {path: root.getter(path) for path in paths} for name, paths in places.items()},
        absent=[root.getter((name,)) for name in absent],
        names=names,
        objects=[path for path in root.places() if root.at(path).members],
    )


def _kind(each: Field) -> Any:
    source = each.source
    if source.written_as is not None or each.type is FieldType.DECIMAL:
        return Raw
    kind = _TYPES[each.type] if source.unit is None else _EPOCHS[source.unit]
    return kind | None if each.nullable or source.path else kind

"""The declared fields of a transaction, as `config/schema.yaml` lists them.

`load` and `parse` validate a schema, and other code does not check it again. Amounts are unscaled 64-bit integers
(12.50 with scale 2 is 1250), so a decimal has at most 18 digits. A schema with a wider decimal is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import field as member
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.model.declared.entity import ROLE, DeclaredEntity, parse_entities
from fraud_rules.model.declared.field_display import DISPLAY_KEYS, FieldDisplay, parse_display
from fraud_rules.model.declared.field_source import (
    SOURCE_KEYS,
    FieldSource,
    FieldType,
    Origin,
    overlapping,
    parse_source,
    path_text,
)
from fraud_rules.model.declared.field_source import (
    Path as FieldPath,
)
from fraud_rules.model.declared.record_format import FORMAT_KEYS, FormatSettings, parse_format
from fraud_rules.runtime.yaml_file import read_yaml

__all__ = [
    "ID_FIELD", "MAX_FIELDS", "MAX_NAME_LENGTH", "MAX_PRECISION", "ROLE", "TIME_FIELD", "DeclaredEntity", "Envelope",
    "Field", "FieldType", "TextStep", "TransactionSchema",
]  # fmt: skip

ID_FIELD: Final = "transactionId"
TIME_FIELD: Final = "eventTime"
MAX_FIELDS: Final = 64
MAX_NAME_LENGTH: Final = 64
MAX_PRECISION: Final = 18
_ROW_FIELDS: Final = 2
"""The fields that a row of an entity has beside those of the transaction: its value of the entity, and its role."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS = (
    frozenset({"name", "type", "nullable", "aliases", "precision", "scale", "normalize"}) | SOURCE_KEYS | DISPLAY_KEYS
)


class Envelope(StrEnum):
    """What surrounds the payment in each record.

    CONNECT: Kafka Connect's JSON with schemas, the payment in `payload`. DEBEZIUM: a change of a table, the payment in
    `after`; only created rows are payments. CLOUDEVENTS: structured mode, the payment in `data`.
    """

    NONE = "none"
    CONNECT = "connect"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"

    @property
    def payments(self) -> tuple[tuple[str, ...], ...]:
        """The places of the payment in a record. Debezium's change may be inside Kafka Connect's envelope."""
        return _PAYMENTS[self]


_PAYMENTS: Final[Mapping[Envelope, tuple[tuple[str, ...], ...]]] = {
    Envelope.NONE: ((),),
    Envelope.CONNECT: (("payload",),),
    Envelope.DEBEZIUM: (("after",), ("payload", "after")),
    Envelope.CLOUDEVENTS: (("data",),),
}


class TextStep(StrEnum):
    """A step of the normalization of texts: NFC composes characters, TRIM removes blanks and zero-width characters at
    both ends (see `codec.text_form`)."""

    NFC = "nfc"
    TRIM = "trim"


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. `aliases` are further member names that records may use; the product never writes them.
    The codec applies the steps of `normalize` to each text of the field, always in the order of `TextStep`. `source`
    says how a record holds the value.

    `display` describes the field to people. It has no effect on rules, so fields with another one are equal.
    """

    name: str
    type: FieldType
    nullable: bool = False
    aliases: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0
    normalize: tuple[TextStep, ...] = ()
    source: FieldSource = member(default_factory=FieldSource)
    display: FieldDisplay = member(default_factory=FieldDisplay, compare=False)

    @property
    def numeric(self) -> bool:
        """Whether rules can aggregate the field."""
        return self.type in (FieldType.LONG, FieldType.DECIMAL)

    @property
    def is_measure(self) -> bool:
        """Whether the pages suggest the field for sums. Without a declaration: decimals, but no other numbers."""
        declared = self.display.measure
        return self.numeric and (self.type is FieldType.DECIMAL if declared is None else declared)

    @property
    def member_names(self) -> tuple[str, ...]:
        """All names that a record may use for the field, its own name first."""
        return (self.name, *self.aliases)

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """The places in a payment that may hold the field."""
        return (self.source.path,) if self.source.path else tuple((name,) for name in self.member_names)


@dataclass(frozen=True)
class TransactionSchema:
    """The fields of a transaction in the order of a CSV line, the envelope of each record, and the format.

    `entities` are those that a rule can group by. `row_entity` is the entity of the rows in a schema of `of_rows`.
    """

    fields: tuple[Field, ...]
    unwrap: Envelope = Envelope.NONE
    format: FormatSettings = member(default_factory=FormatSettings)
    entities: tuple[DeclaredEntity, ...] = ()
    row_entity: DeclaredEntity | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The canonical names, in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def in_value(self) -> tuple[Field, ...]:
        """The fields that a record's value holds, in order."""
        return tuple(field for field in self.fields if field.source.origin is Origin.VALUE)

    @cached_property
    def beside_value(self) -> tuple[Field, ...]:
        """The fields that the key, a header or the topic's name holds, in order."""
        return tuple(field for field in self.fields if field.source.origin is not Origin.VALUE)

    @cached_property
    def masked(self) -> tuple[Field, ...]:
        """The fields whose values identify a person, in order."""
        return tuple(field for field in self.fields if field.display.masked)

    @cached_property
    def reads_keys(self) -> bool:
        """Whether a field comes from the records' keys."""
        return any(field.source.origin is Origin.KEY for field in self.fields)

    @cached_property
    def reads_headers(self) -> bool:
        """Whether a field comes from a header of the records, or a header may name the record's own schema."""
        is_registered = self.format.registry is not None
        return is_registered or any(field.source.origin is Origin.HEADER for field in self.fields)

    @cached_property
    def flat(self) -> TransactionSchema:
        """The schema of rows with one column for each field, such as those of a CSV file.

        It has no places, forms and envelope, but the units of times and amounts.
        """
        return TransactionSchema(tuple(replace(each, source=each.source.units) for each in self.fields))

    @property
    def plain(self) -> TransactionSchema:
        """The flat schema whose times are in epoch ms and whose decimals are numbers."""
        return TransactionSchema(tuple(replace(each, source=FieldSource()) for each in self.fields))

    def key_name(self, name: str) -> str | None:
        """The canonical name of a member of a grouping: a field or an entity; None if neither has this name."""
        field = self.field(name)
        if field is not None:
            return field.name
        return name if any(each.name == name for each in self.entities) else None

    def value_fields(self, name: str) -> tuple[str, ...]:
        """The fields that hold the values of a member of a grouping: the field, or those of the entity's roles."""
        entity = self.entity_of((name,))
        return (name,) if entity is None else entity.fields

    def entity_of(self, grouping: Iterable[str]) -> DeclaredEntity | None:
        """The entity by which a rule groups; None if it groups by fields only."""
        if not self.entities:
            return None
        return next((each for each in self.entities if each.name in grouping), None)

    def of_rows(self, grouping: Iterable[str]) -> TransactionSchema:
        """The schema of the rows of a grouping, the same object at each call: with an entity, its value and the role
        follow the fields."""
        entity = self.entity_of(grouping)
        return self if entity is None else self._of_entity[entity]

    def of_expressions(self, grouping: Iterable[str]) -> TransactionSchema:
        """The fields that the expressions of a rule with this grouping may name: with an entity, also the role."""
        rows = self.of_rows(grouping)
        return rows if rows is self else replace(rows, fields=(*self.fields, rows.fields[-1]))

    @cached_property
    def _of_entity(self) -> Mapping[DeclaredEntity, TransactionSchema]:
        found = {}
        for each in self.entities:
            like = self._by_name[each.fields[0]]
            value = Field(each.name, like.type, precision=like.precision, scale=like.scale, normalize=like.normalize)
            role = Field(ROLE, FieldType.STRING, display=FieldDisplay("Role", values=each.role_names))
            found[each] = TransactionSchema((*self.fields, value, role), row_entity=each)
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {name: field for field in self.fields for name in field.member_names}

    def field(self, name: str) -> Field | None:
        """The field with this name or alias; None if the schema declares no such field."""
        return self._by_name.get(name)

    def scale_of(self, name: str | None) -> int:
        """The decimals of an aggregated field; 0 for whole numbers, and for None, which stands for counts."""
        field = None if name is None else self.field(name)
        return 0 if field is None else field.scale

    @classmethod
    def load(cls, path: Path) -> TransactionSchema:
        """Read a schema file. Raises ConfigError with every fault of the file."""
        return cls.parse(read_yaml(path), str(path), path.parent)

    def text(self) -> str:
        """Format the schema as the text of a file that `load` can read, without the display of its fields.

        The text is part of a release, so a new label does not restart a detector.
        """
        document: dict[str, object] = {"fields": [_document(each) for each in self.fields]}
        if self.unwrap is not Envelope.NONE:
            document["unwrap"] = self.unwrap.value
        document |= self.format.document()
        if self.entities:
            document["entities"] = [each.document() for each in self.entities]
        return yaml.safe_dump(document, sort_keys=False)

    @classmethod
    def parse(cls, document: object, where: str = "schema", folder: Path | None = None) -> TransactionSchema:
        """Build a schema from decoded YAML. Errors call the document `where`. Raises ConfigError with every fault.

        `folder` contains the files that the document names.
        """
        faults: list[str] = []
        fields = _parse_fields(document, faults)
        unwrap = _parse_envelope(document, faults)
        encoding = parse_format(document, folder, faults) if isinstance(document, dict) else FormatSettings()
        faults += _faults_of_set(fields)
        entities = _parse_entities(document, fields, faults)
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(tuple(fields), unwrap, encoding, entities)


def _document(field: Field) -> dict[str, object]:
    """The keys of a schema file that declare the field, without its display."""
    document = {
        **asdict(field),
        "type": field.type.value,
        "aliases": list(field.aliases),
        "normalize": [step.value for step in field.normalize],
    }
    del document["display"], document["source"]
    return document | field.source.document()


def _parse_envelope(document: object, faults: list[str]) -> Envelope:
    found = document.get("unwrap", Envelope.NONE) if isinstance(document, dict) else Envelope.NONE
    if found not in tuple(Envelope):
        faults.append(f"`unwrap` must be one of {', '.join(Envelope)}")
        return Envelope.NONE
    return Envelope(str(found))


def _parse_entities(document: object, fields: list[Field], faults: list[str]) -> tuple[DeclaredEntity, ...]:
    declared = document.get("entities") if isinstance(document, dict) else None
    if declared is None:
        return ()
    if len(fields) > MAX_FIELDS - _ROW_FIELDS:
        faults.append(f"`fields` must hold at most {MAX_FIELDS - _ROW_FIELDS} fields beside `entities`")
    names = {name: field.name for field in fields for name in field.member_names}
    kinds = {field.name: (field.type, field.precision, field.scale) for field in fields}
    return parse_entities(declared, names, kinds, faults)


def _parse_fields(document: object, faults: list[str]) -> list[Field]:
    if not isinstance(document, dict) or not isinstance(document.get("fields"), list):
        faults.append("must hold a list `fields`")
        return []
    faults += [f"unknown key {key!r}" for key in document if key not in ("fields", "unwrap", "entities", *FORMAT_KEYS)]
    items = document["fields"]
    if not 1 <= len(items) <= MAX_FIELDS:
        faults.append(f"`fields` must hold 1 to {MAX_FIELDS} fields, not {len(items)}")
        return []
    parsed = [_parse_field(position, item, faults) for position, item in enumerate(items)]
    return [field for field in parsed if field is not None]


def _parse_field(position: int, item: object, faults: list[str]) -> Field | None:
    if not isinstance(item, dict):
        faults.append(f"fields[{position}] must be a mapping with `name` and `type`")
        return None
    name = item.get("name")
    label = f"field {name!r}" if isinstance(name, str) else f"fields[{position}]"
    before = len(faults)
    faults += [f"{label}: unknown key {key!r}" for key in item if key not in _KEYS]
    if not _is_name(name):
        faults.append(f"{label}: `name` must be letters, digits and _, at most {MAX_NAME_LENGTH}, no digit first")
    aliases = item.get("aliases") or []
    if not isinstance(aliases, list) or not all(_is_name(alias) for alias in aliases):
        faults.append(f"{label}: `aliases` must be a list of names")
    nullable = item.get("nullable", False)
    if not isinstance(nullable, bool):
        faults.append(f"{label}: `nullable` must be true or false")
    kind = item.get("type")
    if kind not in tuple(FieldType):
        faults.append(f"{label}: `type` must be one of {', '.join(FieldType)}")
    precision, scale = item.get("precision", 0), item.get("scale", 0)
    faults += _digit_faults(label, kind, precision, scale)
    steps = item.get("normalize") or []
    faults += _step_faults(label, name, kind, steps)
    source = parse_source(item, kind, label, faults)
    if source.path and aliases:
        faults.append(f"{label}: `aliases` are further names of a member, so they exclude `path`")
    # The unit of a timestamp is part of its source, and not a text for people.
    is_time = kind == FieldType.TIMESTAMP
    display = parse_display({**item, "unit": ""} if is_time else item, label, faults)
    if len(faults) > before:
        return None
    normalize = tuple(step for step in TextStep if step in steps)
    return Field(
        str(name), FieldType(str(kind)), nullable, tuple(aliases), precision, scale, normalize, source, display
    )


def _step_faults(label: str, name: object, kind: object, steps: object) -> list[str]:
    if not isinstance(steps, list) or not all(step in tuple(TextStep) for step in steps):
        return [f"{label}: `normalize` must be a list of {', '.join(TextStep)}"]
    if steps and kind != FieldType.STRING:
        return [f"{label}: `normalize` is for type string only"]
    if steps and name == ID_FIELD:
        return [f"{label}: `normalize` is not possible, because receivers find their payment by this id"]
    return []


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None


def _digit_faults(label: str, kind: object, precision: object, scale: object) -> list[str]:
    if type(precision) is not int or type(scale) is not int:
        return [f"{label}: `precision` and `scale` must be whole numbers"]
    if kind != FieldType.DECIMAL:
        return [] if precision == scale == 0 else [f"{label}: `precision` and `scale` are for type decimal only"]
    if not 1 <= precision <= MAX_PRECISION:
        return [f"{label}: `precision` must be 1 to {MAX_PRECISION}, so that the amount fits 64 bits"]
    return [] if 0 <= scale <= precision else [f"{label}: `scale` must be 0 to the precision, {precision}"]


def _faults_of_set(fields: list[Field]) -> list[str]:
    faults: list[str] = []
    seen: set[str] = set()
    for name in (name for field in fields for name in field.member_names):
        if name in seen:
            faults.append(f"the name {name!r} is used twice")
        seen.add(name)
    in_value = [field for field in fields if field.source.origin is Origin.VALUE]
    plain = [path for field in in_value if not field.source.path for path in field.paths]
    pair = overlapping([*dict.fromkeys(plain), *(field.source.path for field in in_value if field.source.path)])
    if pair is not None:
        faults.append(f"two fields read {path_text(pair[0])} and {path_text(pair[1])}: a value belongs to one field")
    by_name = {field.name: field for field in fields}
    for name, kinds in ((ID_FIELD, (FieldType.LONG, FieldType.STRING)), (TIME_FIELD, (FieldType.TIMESTAMP,))):
        found = by_name.get(name)
        if found is None or found.type not in kinds or found.nullable:
            faults.append(f"a field {name!r} of type {' or '.join(kinds)}, not nullable, is required")
    return faults

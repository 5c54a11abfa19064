"""The declared fields of a transaction, as `config/schema.yaml` lists them.

`load` and `parse` validate a schema, and other code does not check it again. Amounts are unscaled 64-bit integers
(12.50 with scale 2 is 1250), so a decimal has at most 18 digits. A schema with a wider decimal is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as member
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.model.field_display import DISPLAY_KEYS, FieldDisplay, parse_display
from fraud_rules.runtime.yaml_file import read_yaml

ID_FIELD: Final = "transactionId"
TIME_FIELD: Final = "eventTime"
MAX_FIELDS: Final = 64
MAX_NAME_LENGTH: Final = 64
MAX_PRECISION: Final = 18

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS = frozenset({"name", "type", "nullable", "aliases", "precision", "scale", "normalize"}) | DISPLAY_KEYS


class FieldType(StrEnum):
    """The type of a field. Every type is stored as an int64 column (see `model.transaction.Column`)."""

    LONG = "long"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"


class TextStep(StrEnum):
    """A step of the normalization of texts: NFC composes characters, TRIM removes blanks and zero-width characters at
    both ends (see `codec.text_form`)."""

    NFC = "nfc"
    TRIM = "trim"


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. `aliases` are further member names that records may use; the product never writes them.
    The codec applies the steps of `normalize` to each text of the field, always in the order of `TextStep`.

    `display` describes the field to people. It has no effect on rules, so fields with another one are equal.
    """

    name: str
    type: FieldType
    nullable: bool = False
    aliases: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0
    normalize: tuple[TextStep, ...] = ()
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


@dataclass(frozen=True)
class TransactionSchema:
    """The fields of a transaction in the order of a CSV line."""

    fields: tuple[Field, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The canonical names, in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {name: field for field in self.fields for name in field.member_names}

    def field(self, name: str) -> Field | None:
        """The field with this name or alias; None if the schema declares no such field."""
        return self._by_name.get(name)

    @classmethod
    def load(cls, path: Path) -> TransactionSchema:
        """Read a schema file. Raises ConfigError with every fault of the file."""
        return cls.parse(read_yaml(path), str(path))

    def text(self) -> str:
        """Format the schema as the text of a file that `load` can read, without the display of its fields.

        The text is part of a release, so a new label does not restart a detector.
        """
        documents = [
            {
                **asdict(each),
                "type": each.type.value,
                "aliases": list(each.aliases),
                "normalize": [step.value for step in each.normalize],
            }
            for each in self.fields
        ]
        for document in documents:
            del document["display"]
        return yaml.safe_dump({"fields": documents}, sort_keys=False)

    @classmethod
    def parse(cls, document: object, where: str = "schema") -> TransactionSchema:
        """Build a schema from decoded YAML. Errors call the document `where`. Raises ConfigError with every fault."""
        faults: list[str] = []
        fields = _parse_fields(document, faults)
        faults += _faults_of_set(fields)
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(tuple(fields))


def _parse_fields(document: object, faults: list[str]) -> list[Field]:
    if not isinstance(document, dict) or not isinstance(document.get("fields"), list):
        faults.append("must hold a list `fields`")
        return []
    faults += [f"unknown key {key!r}" for key in document if key != "fields"]
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
    display = parse_display(item, label, faults)
    if len(faults) > before:
        return None
    normalize = tuple(step for step in TextStep if step in steps)
    return Field(str(name), FieldType(str(kind)), nullable, tuple(aliases), precision, scale, normalize, display)


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
    by_name = {field.name: field for field in fields}
    for name, kinds in ((ID_FIELD, (FieldType.LONG, FieldType.STRING)), (TIME_FIELD, (FieldType.TIMESTAMP,))):
        found = by_name.get(name)
        if found is None or found.type not in kinds or found.nullable:
            faults.append(f"a field {name!r} of type {' or '.join(kinds)}, not nullable, is required")
    return faults

"""Decodes all members of records whose format has schemas, without declared fields.

In Avro the first reading shows the members, and the second one has their types. In Protobuf the message type shows
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fraud_rules.codec.formats.places import FieldPlaces
from fraud_rules.codec.formats.record_format import record_format_of
from fraud_rules.codec.formats.schemas import RegisteredSchema, schema_source
from fraud_rules.codec.formats.wire import head_length, heads_in, positions_of, schema_key
from fraud_rules.discovery.profile import profile_of
from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.errors import RecordRejected, TopicNotUnderstood
from fraud_rules.model.declared.field_source import Path, path_text
from fraud_rules.model.declared.record_format import FormatName, FormatSettings, RegistrySettings

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_FORMATS: Final = {"AVRO": FormatName.AVRO, "PROTOBUF": FormatName.PROTOBUF, "JSON": FormatName.JSON_SCHEMA}
_DEEPEST: Final = 8
"""The depth to which the members of a message type are followed. A type can contain itself."""


def registered_format(sample: Sequence[SampleRecord], registry: RegistrySettings) -> FormatSettings:
    """The format of records whose schemas are in a registry. Raises TopicNotUnderstood, RegistryUnavailable."""
    try:
        schema, _ = _schema_of(sample[0], registry)
    except RecordRejected as error:
        raise TopicNotUnderstood(f"the records are not in a registry's wire format: {error.detail}") from error
    return FormatSettings(_FORMATS[schema.kind], registry)


def decoded_sample(sample: Sequence[SampleRecord], encoding: FormatSettings) -> list[object]:
    """The records as trees, as `RecordFormat.trees` returns them.

    Raises ConfigError, TopicNotUnderstood, RegistryUnavailable.
    """
    values, headers = [record.value for record in sample], [record.headers for record in sample]
    if encoding.format is FormatName.PROTOBUF:
        return record_format_of(encoding, _places(_members(_message(sample[0], encoding)))).trees(values, headers)
    trees = record_format_of(encoding, ()).trees(values, headers)
    if encoding.format is FormatName.JSON_SCHEMA:
        return trees
    seen = profile_of([tree for tree in trees if isinstance(tree, dict)])
    return record_format_of(encoding, _places(seen.places)).trees(values, headers)


def _places(paths: Iterable[Path]) -> tuple[FieldPlaces, ...]:
    return tuple(FieldPlaces(path_text(path), (path,), required=False) for path in paths)


def _schema_of(record: SampleRecord, registry: RegistrySettings) -> tuple[RegisteredSchema, bytes]:
    """The schema of a record, and the head that names it. Raises RecordRejected."""
    head = heads_in([record.headers]).get(0, record.value)
    head_length(head, has_positions=False)
    key = schema_key(head)
    schema = schema_source(registry).schemas([key])[key]
    if schema is None or schema.kind not in _FORMATS:
        raise RecordRejected("unknown_schema_id", f"the registry has no schema {key}")
    return schema, head


def _message(record: SampleRecord, encoding: FormatSettings) -> Descriptor:
    from fraud_rules.codec.formats.protobuf_schema import message_at, message_named

    try:
        if encoding.registry is None:
            return message_named(encoding.schema_file, encoding.message)
        schema, head = _schema_of(record, encoding.registry)
        return message_at(schema, positions_of(head))
    except (RecordRejected, ValueError) as error:
        raise TopicNotUnderstood(f"the message type cannot be read: {error}") from error


def _members(message: Descriptor, path: Path = ()) -> Iterator[Path]:
    """The paths of all scalars of a message type."""
    for member in message.fields:
        place = (*path, member.name)
        if not member.is_repeated and len(place) <= _DEEPEST:
            yield from [place] if _is_scalar(member) else _members(member.message_type, place)


def _is_scalar(member: FieldDescriptor) -> bool:
    kind = member.message_type
    return kind is None or kind.full_name.startswith(("google.protobuf.", "google.type.", "confluent.type."))

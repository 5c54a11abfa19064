"""The formats whose records have a schema of their own, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from fraud_rules.codec.formats.places import FieldPlaces, places_of
from fraud_rules.codec.formats.schemas import RegisteredSchema, schema_source
from fraud_rules.codec.formats.wire import Compile, Decode, Headers, RegistryRecords, UnreadRecords
from fraud_rules.errors import ConfigError, RecordRejected
from fraud_rules.model.declared.record_format import FormatName, FormatSettings
from fraud_rules.model.schema import TransactionSchema


class RecordFormat(Protocol):
    """Decodes records to trees of Python values."""

    def trees(self, values: Sequence[bytes | None], headers: Headers | None = None) -> list[object]:
        """Decode the values of n records, whose headers are given too if they may name schemas.

        The result has n elements: None for a tombstone, a RecordRejected (returned, not raised) for a value that cannot
        be decoded, and otherwise the record. A record is a dict of the declared members, at least. The values in it are
        dict, list, str, int, bool, None, Decimal, `EpochMs`, and bytes for a binary value. JSON Schema is an exception:
        its records are the bytes of a JSON text.

        The reasons: `wrong_magic_byte`, `unknown_schema_id`, `incompatible_schema`, `malformed_avro`,
        `malformed_protobuf`. The caller limits the length of the values; the time and the memory are linear in it.

        Raises RegistryUnavailable if the registry gives no answer about a schema that is not known here, and Stalled if
        this host is too slow to compile one. No other content raises an error.
        """


def record_format(schema: TransactionSchema) -> RecordFormat:
    """The format of the records of this schema, which a process keeps.

    Raises ConfigError for a schema file that cannot be read or has no place for a field, and for unusable settings of
    the registry.
    """
    return record_format_of(schema.format, places_of(schema))


@lru_cache(maxsize=16)
def record_format_of(settings: FormatSettings, fields: tuple[FieldPlaces, ...]) -> RecordFormat:
    """The format with these settings, for records whose fields are at these places. Raises ConfigError."""
    match settings.format:
        case FormatName.AVRO:
            return _avro(settings, fields)
        case FormatName.PROTOBUF:
            return _protobuf(settings, fields)
        case FormatName.JSON_SCHEMA:
            return UnreadRecords()
    raise ConfigError(f"records of the format {settings.format} have no schema")


class _PlainRecords:
    """Reads records that all have the schema of a file, and no head."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def trees(self, values: Sequence[bytes | None], headers: Headers | None = None) -> list[object]:
        """See `RecordFormat`."""
        decode = self._decode
        return [None if value is None else decode(value, 0) for value in values]


def _avro(settings: FormatSettings, fields: tuple[FieldPlaces, ...]) -> RecordFormat:
    from fraud_rules.codec.formats.avro import avro_decoder
    from fraud_rules.codec.formats.avro_schema import parse_avro

    try:
        file = parse_avro(settings.schema_file.decode()) if settings.schema_file else None
        if settings.registry is None:
            assert file is not None, "the settings have a schema"
            return _PlainRecords(avro_decoder(file, fields))
    except (ValueError, RecordRejected) as error:
        raise ConfigError(f"the schema file cannot be used: {error}") from error

    def compile_avro(schema: RegisteredSchema, positions: tuple[int, ...]) -> Decode:
        _check_kind(schema, "AVRO")
        try:
            writer = parse_avro(schema.text, schema.references)
        except ValueError as error:
            raise RecordRejected("incompatible_schema", str(error)) from error
        return avro_decoder(writer, fields, file)

    return _of_registry(settings, compile_avro, has_positions=False)


def _protobuf(settings: FormatSettings, fields: tuple[FieldPlaces, ...]) -> RecordFormat:
    from fraud_rules.codec.formats.protobuf import protobuf_decoder
    from fraud_rules.codec.formats.protobuf_schema import message_at, message_named

    if settings.registry is None:
        try:
            return _PlainRecords(protobuf_decoder(message_named(settings.schema_file, settings.message), fields))
        except (ValueError, RecordRejected) as error:
            raise ConfigError(f"the schema file cannot be used: {error}") from error

    def compile_protobuf(schema: RegisteredSchema, positions: tuple[int, ...]) -> Decode:
        _check_kind(schema, "PROTOBUF")
        try:
            message = message_at(schema, positions)
        except ValueError as error:
            raise RecordRejected("incompatible_schema", str(error)) from error
        return protobuf_decoder(message, fields)

    return _of_registry(settings, compile_protobuf, has_positions=True)


def _of_registry(settings: FormatSettings, compile_schema: Compile, *, has_positions: bool) -> RecordFormat:
    assert settings.registry is not None, "the settings have a registry"
    return RegistryRecords(schema_source(settings.registry), compile_schema, has_positions=has_positions)


def _check_kind(schema: RegisteredSchema, kind: str) -> None:
    if schema.kind != kind:
        raise RecordRejected("incompatible_schema", f"its type is {schema.kind}, and the records' format is {kind}")

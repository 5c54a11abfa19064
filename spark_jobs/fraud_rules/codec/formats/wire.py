"""Confluent's wire format: each record names the schema that its writer used.

A value begins with its head: the byte 0 and the id of the schema in four bytes, or the byte 1 and its GUID in sixteen.
If the record has the header `__value_schema_id`, the header holds the head, and the value has none. In Protobuf the
head ends with the position of the message type in the schema, as zigzag varints: their number, then the positions from
the outermost type to the innermost, or only 0 for the first type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from fraud_rules.codec.formats.schemas import RegisteredSchema, SchemaKey, SchemaSource
from fraud_rules.errors import RecordRejected

HEADER: Final = "__value_schema_id"

MAX_DECODERS: Final = 1_000
"""The most schemas that a process keeps compiled."""

ASKED_AT_ONCE: Final = 1_000
"""The number of new schemas for which the registry is asked before its answers are looked at."""

Headers: TypeAlias = Sequence[Sequence[tuple[str, bytes | None]]]

Decode: TypeAlias = Callable[[bytes, int], object]
"""Decodes a value from a position on. Returns a tree, or a RecordRejected."""

_BY_ID: Final = 0
_ID_LENGTH: Final = 5
_GUID_LENGTH: Final = 17
_MAX_VARINT_BYTES: Final = 5
_MAX_NESTING: Final = 32


class Compile(Protocol):
    """Builds the decoder of a schema, and of the message type at these positions in it.

    Raises RecordRejected for a schema that no record of the declared fields can have.
    """

    def __call__(self, schema: RegisteredSchema, positions: tuple[int, ...]) -> Decode: ...


class RegistryRecords:
    """Reads records whose schemas are in a registry."""

    def __init__(self, source: SchemaSource, compile_schema: Compile, *, has_positions: bool) -> None:
        """With `has_positions`, the heads have the positions of message types."""
        self._source = source
        self._compile = compile_schema
        self._has_positions = has_positions
        self._decoders: dict[bytes, Decode] = {}
        self._usual_length = _ID_LENGTH

    def trees(self, values: Sequence[bytes | None], headers: Headers | None = None) -> list[object]:
        """See `RecordFormat`. Raises RegistryUnavailable if a schema is not known here, and the registry is down."""
        found: list[object] = [None] * len(values)
        heads = heads_in(headers)
        others = []
        decoders, length = self._decoders, self._usual_length
        for i, value in enumerate(values):
            if value is None:
                continue
            # No head is the beginning of another one, so a known head of this length is the head of the value.
            decode = None if heads else decoders.get(value[:length])
            if decode is None:
                others.append(i)
            else:
                found[i] = decode(value, length)
        if others:
            self._read_others(values, heads, others, found)
        return found

    def _read_others(
        self, values: Sequence[bytes | None], heads: dict[int, bytes], at: list[int], found: list[object]
    ) -> None:
        """Read records whose head is in a header, has another length than the usual one, or is new."""
        located: dict[int, tuple[bytes, int]] = {}
        for i in at:
            value = values[i]
            assert value is not None, "a tombstone has no head"
            try:
                length = head_length(heads.get(i, value), has_positions=self._has_positions)
            except RecordRejected as rejected:
                found[i] = rejected
            else:
                located[i] = (heads[i][:length], 0) if i in heads else (value[:length], length)
        decoders = self._decoders_of(Counter(head for head, _ in located.values()))
        for i, (head, start) in located.items():
            value, decode = values[i], decoders[head]
            assert value is not None, "a tombstone has no head"
            found[i] = decode(value, start) if callable(decode) else decode
            self._usual_length = len(head)

    def _decoders_of(self, heads: Counter[bytes]) -> dict[bytes, Decode | RecordRejected]:
        """The decoder of each head, or the reason of its records. `heads` has the number of records of each."""
        decoders: dict[bytes, Decode | RecordRejected] = {
            head: self._decoders[head] for head in heads if head in self._decoders
        }
        new = [head for head, _ in heads.most_common() if head not in decoders]
        schemas = self._schemas(list(dict.fromkeys(map(schema_key, new))))
        for head in new:
            key = schema_key(head)
            schema = schemas.get(key)
            if schema is not None:
                decoders[head] = self._remember(head, schema)
            elif key in schemas:
                decoders[head] = RecordRejected("unknown_schema_id", f"the registry has no schema {key}")
            else:
                detail = f"the registry was not asked for schema {key}: it knew none of {ASKED_AT_ONCE:,} others"
                decoders[head] = RecordRejected("unknown_schema_id", detail)
        return decoders

    def _schemas(self, keys: Sequence[SchemaKey]) -> dict[SchemaKey, RegisteredSchema | None]:
        """The answers of the registry about these keys, those with the most records first.

        Garbage can name another schema in each record, and each costs a request. So the registry is asked for a part of
        the keys at a time, and for no more after a part of which it knows none.
        """
        answers: dict[SchemaKey, RegisteredSchema | None] = {}
        for start in range(0, len(keys), ASKED_AT_ONCE):
            found = self._source.schemas(keys[start : start + ASKED_AT_ONCE])
            answers.update(found)
            if all(schema is None for schema in found.values()):
                break
        return answers

    def _remember(self, head: bytes, schema: RegisteredSchema) -> Decode:
        try:
            decode = self._compile(schema, positions_of(head) if self._has_positions else ())
        except RecordRejected as error:
            rejected = RecordRejected(error.reason, f"schema {schema_key(head)}: {error.detail}")
            decode = _rejecting(rejected)
        while len(self._decoders) >= MAX_DECODERS:
            del self._decoders[next(iter(self._decoders))]
        self._decoders[head] = decode
        return decode


class UnreadRecords:
    """Removes the heads of records without asking the registry. The trees are the rest of each value, as bytes."""

    def trees(self, values: Sequence[bytes | None], headers: Headers | None = None) -> list[object]:
        """See `RecordFormat`."""
        heads = heads_in(headers)
        return [None if value is None else _without_head(value, heads.get(i)) for i, value in enumerate(values)]


def _without_head(value: bytes, head: bytes | None) -> bytes | RecordRejected:
    try:
        length = head_length(value if head is None else head, has_positions=False)
    except RecordRejected as rejected:
        return rejected
    return value[length:] if head is None else value


def _rejecting(rejected: RecordRejected) -> Decode:
    return lambda value, start: rejected


def heads_in(headers: Headers | None) -> dict[int, bytes]:
    """The heads of the records that have one in a header, by the position of the record."""
    heads: dict[int, bytes] = {}
    for i, pairs in enumerate(headers or ()):
        for name, content in pairs:
            if name == HEADER and content is not None:
                heads[i] = content
    return heads


def head_length(data: bytes, *, has_positions: bool) -> int:
    """The length of the head at the beginning of the data. Raises RecordRejected if there is none."""
    if data[:1] not in (b"\0", b"\1"):
        first = f"the first byte is {data[0]}" if data else "no byte"
        raise RecordRejected("wrong_magic_byte", f"{first}, not 0 or 1: no schema of a registry")
    length = _ID_LENGTH if data[0] == _BY_ID else _GUID_LENGTH
    if len(data) < length:
        raise RecordRejected("wrong_magic_byte", f"{len(data)} bytes are too few for the id of a schema")
    return _read_positions(data, length)[1] if has_positions else length


def schema_key(head: bytes) -> SchemaKey:
    """The id in a head, or its GUID."""
    if head[0] == _BY_ID:
        return int.from_bytes(head[1:_ID_LENGTH], "big")
    return str(UUID(bytes=head[1:_GUID_LENGTH]))


def positions_of(head: bytes) -> tuple[int, ...]:
    """The positions of the message type in a head of Protobuf."""
    return _read_positions(head, _ID_LENGTH if head[0] == _BY_ID else _GUID_LENGTH)[0]


def _read_positions(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = _read_varint(data, at)
    if not 0 <= count <= _MAX_NESTING:
        raise RecordRejected("wrong_magic_byte", f"the message type has {count} positions")
    positions = []
    for _ in range(count):
        position, at = _read_varint(data, at)
        positions.append(position)
    return tuple(positions) or (0,), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the position after it."""
    value = 0
    for n, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + n + 1
    raise RecordRejected("wrong_magic_byte", "the position of the message type is cut off")

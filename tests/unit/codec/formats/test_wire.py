"""Confluent's wire format, against confluent-kafka's own implementation."""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.formats import wire
from fraud_rules.codec.formats.schemas import RegisteredSchema
from fraud_rules.codec.formats.wire import (
    HEADER,
    Decode,
    RegistryRecords,
    UnreadRecords,
    head_length,
    positions_of,
    schema_key,
)
from fraud_rules.errors import RecordRejected, RegistryUnavailable
from tests.support.formats.sources import MemoryRegistry

GUID = "89791762-2336-4186-9674-299b90a802e2"
SCHEMAS = {
    7: RegisteredSchema("AVRO", "seven"),
    8: RegisteredSchema("AVRO", "eight"),
    GUID: RegisteredSchema("AVRO", "g"),
}


def head(key: int | str, positions: list[int] | None = None) -> bytes:
    if isinstance(key, int):
        return SchemaId("AVRO", key, None, positions).id_to_bytes()
    return SchemaId("AVRO", None, key, positions).guid_to_bytes()


def compiled(schema: RegisteredSchema, positions: tuple[int, ...]) -> Decode:
    """A decoder that shows what it gets."""
    if schema.text == "bad":
        raise RecordRejected("incompatible_schema", "it is bad")
    return lambda value, start: (schema.text, positions, value[start:])


def records(registry: MemoryRegistry, *, has_positions: bool = False) -> RegistryRecords:
    return RegistryRecords(registry, compiled, has_positions=has_positions)


def reasons(trees: Sequence[object]) -> list[str | None]:
    return [tree.reason if isinstance(tree, RecordRejected) else None for tree in trees]


@given(
    st.one_of(st.integers(0, 2**32 - 1), st.uuids().map(str)),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=8),
    st.binary(max_size=20),
)
def test_a_head_is_read_as_the_client_library_writes_it(key: int | str, positions: list[int], datum: bytes) -> None:
    plain, with_positions = head(key), head(key, positions)
    assert head_length(plain + datum, has_positions=False) == len(plain)
    assert head_length(with_positions + datum, has_positions=True) == len(with_positions)
    assert schema_key(plain) == schema_key(with_positions) == key
    assert positions_of(with_positions) == tuple(positions)


@given(st.binary(max_size=40))
def test_any_bytes_have_a_head_as_in_the_client_library_or_a_reason(data: bytes) -> None:
    try:
        length = head_length(data, has_positions=True)
    except RecordRejected as rejected:
        assert rejected.reason == "wrong_magic_byte"
        return
    known = SchemaId("PROTOBUF")
    rest = known.from_bytes(io.BytesIO(data)).read()
    assert rest == data[length:]
    assert schema_key(data) == (known.id if known.id is not None else str(known.guid))
    assert positions_of(data) == tuple(known.message_indexes)


def test_the_first_message_type_is_a_single_zero() -> None:
    assert positions_of(b"\0\0\0\0\x07\0") == (0,)


def test_each_record_is_decoded_with_its_own_schema() -> None:
    values = [head(7) + b"a", None, head(8) + b"b", head(GUID) + b"c", head(7) + b"d"]
    trees = records(MemoryRegistry(SCHEMAS)).trees(values)
    assert trees == [("seven", (), b"a"), None, ("eight", (), b"b"), ("g", (), b"c"), ("seven", (), b"d")]


def test_heads_of_several_lengths_stay_apart_after_the_first_batch() -> None:
    read = records(MemoryRegistry(SCHEMAS), has_positions=True)
    values = [head(7, [0]) + b"a", head(7, [1, 300]) + b"b", head(GUID, [2]) + b"c", None]
    expected = [("seven", (0,), b"a"), ("seven", (1, 300), b"b"), ("g", (2,), b"c"), None]
    for _ in range(3):
        assert read.trees(values) == expected
        assert read.trees(values[::-1]) == expected[::-1]


def test_a_flood_of_unknown_schemas_asks_the_registry_a_bounded_number_of_times() -> None:
    registry = MemoryRegistry(SCHEMAS)
    flood = [head(key) + b"x" for key in range(1_000, 1_000 + 4 * wire.ASKED_AT_ONCE)]
    trees = records(registry).trees([*flood, head(7) + b"a", head(7) + b"b"])
    assert trees[-2:] == [("seven", (), b"a"), ("seven", (), b"b")], "schemas with more records are asked first"
    assert set(reasons(trees[:-2])) == {"unknown_schema_id"}
    assert [len(keys) for keys in registry.asked] == [wire.ASKED_AT_ONCE] * 2, "the second time it knew none"
    unasked = [tree for tree in trees if isinstance(tree, RecordRejected) and "was not asked" in tree.detail]
    assert len(unasked) == len(flood) - 2 * wire.ASKED_AT_ONCE + 1


def test_more_schemas_than_are_asked_at_once_are_all_found() -> None:
    keys = range(1, 2 * wire.ASKED_AT_ONCE)
    registry = MemoryRegistry({key: RegisteredSchema("AVRO", str(key)) for key in keys})
    trees = records(registry).trees([head(key) for key in keys])
    assert trees == [(str(key), (), b"") for key in keys]


def test_a_header_holds_the_head_instead_of_the_value() -> None:
    headers = [[("trace", b"x"), (HEADER, head(GUID))], [], [(HEADER, None)], [(HEADER, head(8) + b"more")]]
    values = [b"a", head(7) + b"b", head(7) + b"c", head(7) + b"d"]
    trees = records(MemoryRegistry(SCHEMAS)).trees(values, headers)
    assert trees == [("g", (), b"a"), ("seven", (), b"b"), ("seven", (), b"c"), ("eight", (), values[3])]


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\0", b"\x02\0\0\0\x07", b'{"a":1}', b"\1" + bytes(15)])
def test_a_value_without_a_head_is_rejected(value: bytes) -> None:
    assert reasons(records(MemoryRegistry(SCHEMAS)).trees([value])) == ["wrong_magic_byte"]
    assert reasons(UnreadRecords().trees([value])) == ["wrong_magic_byte"]
    assert reasons(records(MemoryRegistry(SCHEMAS)).trees([b"a"], [[(HEADER, value)]])) == ["wrong_magic_byte"]


def test_an_unknown_schema_rejects_only_its_records_and_is_asked_again_in_the_next_batch() -> None:
    registry = MemoryRegistry(SCHEMAS)
    read = records(registry)
    values = [head(7) + b"a", head(9) + b"b"]
    assert reasons(read.trees(values)) == [None, "unknown_schema_id"]
    registry.add(9, RegisteredSchema("AVRO", "nine"))
    assert read.trees(values) == [("seven", (), b"a"), ("nine", (), b"b")]
    assert registry.asked == [{7, 9}, {9}]


def test_an_incompatible_schema_rejects_its_records_and_is_asked_once() -> None:
    registry = MemoryRegistry({**SCHEMAS, 9: RegisteredSchema("AVRO", "bad")})
    read = records(registry)
    for _ in range(2):
        rejected: Any = read.trees([head(9) + b"b"])[0]
        assert (rejected.reason, rejected.detail) == ("incompatible_schema", "schema 9: it is bad")
    assert registry.asked == [{9}]


def test_known_schemas_need_no_registry_and_an_unknown_one_fails_the_batch() -> None:
    registry = MemoryRegistry(SCHEMAS)
    read = records(registry)
    read.trees([head(7) + b"a"])
    registry.is_down = True
    assert read.trees([head(7) + b"b"]) == [("seven", (), b"b")]
    with pytest.raises(RegistryUnavailable):
        read.trees([head(7) + b"b", head(8) + b"c"])
    registry.is_down = False
    assert read.trees([head(8) + b"c"]) == [("eight", (), b"c")]


def test_the_cache_of_decoders_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_DECODERS", 3)
    registry = MemoryRegistry({key: RegisteredSchema("AVRO", str(key)) for key in range(10)})
    read = records(registry)
    values = [head(key) + b"a" for key in range(10)]
    for _ in range(2):
        assert read.trees(values) == [(str(key), (), b"a") for key in range(10)]
    assert len(read._decoders) == 3


def test_json_schema_gives_the_bytes_after_the_head_without_asking() -> None:
    values = [head(99) + b'{"a":1}', head(str(uuid.uuid4())) + b"{}", None, b'{"b":2}']
    headers = [[], [], [], [(HEADER, head(1))]]
    assert UnreadRecords().trees(values, headers) == [b'{"a":1}', b"{}", None, b'{"b":2}']

"""Message types of Protobuf, built from descriptors, and their data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message_factory import GetMessageClass

from fraud_rules.codec.formats.protobuf_schema import message_named

WELL_KNOWN = ("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto")


def member(
    name: str, number: int, kind: str, *, repeated: bool = False, optional: bool = False
) -> FieldDescriptorProto:
    """A member of a message. A `kind` with a dot names a message type, one with a # an enum."""
    field = FieldDescriptorProto(name=name, number=number)
    field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    field.proto3_optional = optional
    if kind.startswith("."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
    elif kind.startswith("#"):
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, kind[1:]
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return field


def message(
    name: str,
    *members: FieldDescriptorProto,
    nested: Iterable[DescriptorProto] = (),
    enums: Mapping[str, Mapping[str, int]] | None = None,
) -> DescriptorProto:
    """A message type. Each optional scalar gets the oneof that the compiler would add."""
    built = DescriptorProto(name=name, field=members, nested_type=nested)
    for field in built.field:
        if field.proto3_optional:
            field.oneof_index = len(built.oneof_decl)
            built.oneof_decl.add(name=f"_{field.name}")
    for enum, values in (enums or {}).items():
        kind = EnumDescriptorProto(name=enum)
        for value, number in values.items():
            kind.value.add(name=value, number=number)
        built.enum_type.append(kind)
    return built


def map_of(name: str, number: int, key: str, value: str, owner: str) -> tuple[FieldDescriptorProto, DescriptorProto]:
    """A map as a member of `owner`, and the type of its entries."""
    entry = message(f"{name.title()}Entry", member("key", 1, key), member("value", 2, value))
    entry.options.map_entry = True
    return member(name, number, f"{owner}.{entry.name}", repeated=True), entry


def file(
    *messages: DescriptorProto, name: str = "payment.proto", imports: Iterable[str] = (), package: str = "shop"
) -> FileDescriptorProto:
    """A source in proto3."""
    return FileDescriptorProto(name=name, package=package, syntax="proto3", message_type=messages, dependency=imports)


def descriptor_set(*files: FileDescriptorProto) -> bytes:
    """The content that protoc writes for these sources."""
    return FileDescriptorSet(file=files).SerializeToString()


def built(kind: Descriptor, fill: Callable[[Any], None]) -> bytes:
    """The bytes of a message that `fill` changes."""
    instance = GetMessageClass(kind)()
    fill(instance)
    return instance.SerializeToString()


def kind_of(content: bytes, name: str) -> Descriptor:
    """A message type of a descriptor set."""
    return message_named(content, name)

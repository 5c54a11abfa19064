"""The transactions of a load in other formats, each with the schema file that reads it. Pure."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessages

from bench.inputs.loads import Made

__all__ = ["PLACES", "SHAPES", "LoadShape"]

_NAMES: Final = ("transactionId", "eventTime", "payeeId", "beneficiaryId", "paymentAmount", "paymentType")
_PLACES: Final = {
    "transactionId": "header.transaction.number",
    "eventTime": "header.createdAt",
    "payeeId": "payment.debtor.account",
    "beneficiaryId": "payment.creditor.account",
    "paymentAmount": "payment.amount.value",
    "paymentType": "payment.kind",
}
_UNUSED: Final = {f"member{i}": f"a text that no rule reads, number {i:02d}, of some length" for i in range(30)}
_AVRO: Final = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": name, "type": "long"} for name in _NAMES[:4]
    ] + [
        {"name": "paymentAmount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
        {"name": "paymentType", "type": "string"},
    ],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadShape:
    """One format: `encode` makes the record of a decoded transaction, whose numbers are texts. `keys` and `paths` are
    those of its schema file, and `files` the contents of the files that it names. `more` are fields beside those of a
    load."""

    name: str
    encode: Callable[[Mapping[str, str]], bytes]
    keys: Mapping[str, object] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    more: Sequence[Mapping[str, object]] = ()

    def schema(self) -> dict[str, object]:
        """The document of the schema file."""
        kinds = {"paymentAmount": "decimal", "paymentType": "string", "eventTime": "timestamp"}
        fields: list[dict[str, object]] = []
        for name in _NAMES:
            each: dict[str, object] = {"name": name, "type": kinds.get(name, "long")}
            if name == "paymentAmount":
                each |= {"precision": 18, "scale": 2}
            fields.append(each | ({"path": self.paths[name]} if self.paths else {}))
        return {**self.keys, "fields": [*fields, *self.more]}

    def of(self, made: Iterable[Made]) -> Iterator[Made]:
        """The transactions of a load as records of this shape."""
        for i, time_ms, text in made:
            yield i, time_ms, self.encode(json.loads(text, parse_int=str, parse_float=str))


def _flat(members: Mapping[str, str]) -> bytes:
    numbers = ",".join(f'"{name}":{members[name]}' for name in _NAMES[:5])
    return f'{{{numbers},"paymentType":"{members["paymentType"]}"}}'.encode()


def _nested(members: Mapping[str, str]) -> bytes:
    """About 2 KB, with 30 members that the schema does not declare."""
    return (
        f'{{"header":{{"transaction":{{"number":{members["transactionId"]}}},"createdAt":{members["eventTime"]},'
        f'"trace":{_TRACE}}},"payment":{{"amount":{{"value":{members["paymentAmount"]},"currency":"EUR"}},'
        f'"kind":"{members["paymentType"]}","debtor":{{"account":{members["payeeId"]}}},'
        f'"creditor":{{"account":{members["beneficiaryId"]}}}}}}}'
    ).encode()


_TRACE: Final = json.dumps(_UNUSED)


def _avro_encoder() -> Callable[[Mapping[str, str]], bytes]:
    from decimal import Decimal

    parsed = fastavro.parse_schema(_AVRO)

    def encode(members: Mapping[str, str]) -> bytes:
        stream = io.BytesIO()
        datum: dict[str, object] = {name: int(members[name]) for name in _NAMES[:4]}
        datum |= {"paymentAmount": Decimal(members["paymentAmount"]), "paymentType": members["paymentType"]}
        fastavro.schemaless_writer(stream, parsed, datum)
        return stream.getvalue()

    return encode


def _descriptors() -> FileDescriptorSet:
    source = FileDescriptorProto(name="payment.proto", package="bench", syntax="proto3")
    message = source.message_type.add(name="Payment")
    for number, name in enumerate(_NAMES, 1):
        is_text = number > 4
        kind = FieldDescriptorProto.TYPE_STRING if is_text else FieldDescriptorProto.TYPE_INT64
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return FileDescriptorSet(file=[source])


def _protobuf_encoder() -> Callable[[Mapping[str, str]], bytes]:
    kind: Any = GetMessages(_descriptors().file)["bench.Payment"]

    def encode(members: Mapping[str, str]) -> bytes:
        numbers = {name: int(members[name]) for name in _NAMES[:4]}
        texts = {name: members[name] for name in _NAMES[4:]}
        encoded: bytes = kind(**numbers, **texts).SerializeToString()
        return encoded

    return encode


SHAPES: Final = (
    LoadShape("flat", _flat),
    LoadShape("nested", _nested, paths=_PLACES),
    LoadShape(
        "avro",
        _avro_encoder(),
        {"format": "avro", "schema_file": "payment.avsc"},
        files={"payment.avsc": json.dumps(_AVRO).encode()},
    ),
    LoadShape(
        "protobuf",
        _protobuf_encoder(),
        {"format": "protobuf", "schema_file": "payment.desc", "message": "bench.Payment"},
        files={"payment.desc": _descriptors().SerializeToString()},
    ),
)


def _placed(members: Mapping[str, str]) -> bytes:
    """Places that differ from one payment to the next."""
    cents = members["paymentAmount"].replace(".", "")
    latitude, longitude = int(members["beneficiaryId"]) % 90, int(members["transactionId"]) % 180
    return _flat(members)[:-1] + f',"latitude":{latitude}.{cents[-3:]},"longitude":-{longitude}.{cents[-4:]}}}'.encode()


PLACES: Final = LoadShape(
    "places",
    _placed,
    more=[{"name": name, "type": "decimal", "precision": 9, "scale": 6} for name in ("latitude", "longitude")],
)
"""Flat JSON with a place of the payment."""

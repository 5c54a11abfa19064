"""The payments of `foreign_shapes` in formats with schemas of their own."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro

from tests.support.formats.protobuf_types import WELL_KNOWN, built, descriptor_set, file, kind_of, member, message
from tests.support.records.foreign_shapes import Payment

AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "reference", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "bookedAt", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "payer", "type": "string"},
        {
            "name": "payee",
            "type": ["null", {"type": "record", "name": "P", "fields": [{"name": "id", "type": "long"}]}],
        },
    ],
}
SOURCE = descriptor_set(
    file(
        message("Party", member("id", 1, "string")),
        message(
            "Payment",
            member("id", 1, "int64"),
            member("created", 2, ".google.protobuf.Timestamp"),
            member("cents", 3, "int64"),
            member("payer", 4, ".shop.Party"),
            member("payee", 5, "string", optional=True),
        ),
        imports=WELL_KNOWN,
    )
)


def avro(each: Payment) -> bytes:
    datum = {
        "reference": f"00000000-0000-4000-8000-{each.id:012d}",
        "bookedAt": each.at_ms,
        "amount": Decimal(each.cents).scaleb(-2),
        "payer": each.payer,
        "payee": {"id": each.payee} if each.payee % 3 else None,
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), datum)
    return stream.getvalue()


def protobuf(each: Payment) -> bytes:
    def fill(made: Any) -> None:
        made.id, made.cents, made.payer.id = each.id, each.cents, each.payer
        made.created.seconds, made.created.nanos = divmod(each.at_ms, 1_000)[0], 0
        if each.payee % 3:
            made.payee = str(each.payee)

    return built(kind_of(SOURCE, "shop.Payment"), fill)

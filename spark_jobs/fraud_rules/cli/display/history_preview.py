"""Prints history files as an import would understand them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fraud_rules.codec.scalar import format_timestamp
from fraud_rules.model.schema import FieldType, TransactionSchema
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.safe_text import scalar_text

if TYPE_CHECKING:
    from fraud_rules.cli.configured import CommandContext


def print_previews(files: Iterable[Path], context: CommandContext) -> None:
    """Print the first payments of each file, and its unreadable records. Raises InputInvalid."""
    from fraud_rules.batch.history_preview import preview

    for file in files:
        found = preview(file, context.schema, context.settings, now_ms())
        times = ""
        if found.first_ms is not None and found.last_ms is not None:
            times = f", {format_timestamp(found.first_ms)} to {format_timestamp(found.last_ms)}"
        print(f"{file}: {found.transactions} of {found.rejected.records} records are readable{times}")
        for line, payment in found.payments:
            print(f"  line {line}: {shown_payment(payment, context.schema)}")
        for rejected in found.rejected.lines():
            print(f"  unreadable: {rejected}")


def shown_payment(payment: Mapping[str, Any], schema: TransactionSchema) -> str:
    """The fields of a payment on one line."""
    return " ".join(f"{field.name}={_value(payment.get(field.name), field.type)}" for field in schema.fields)


def _value(value: object, kind: FieldType) -> str:
    if value is None:
        return "null"
    if kind is FieldType.TIMESTAMP and isinstance(value, int):
        return format_timestamp(value)
    return repr(value) if isinstance(value, str) else scalar_text(value)

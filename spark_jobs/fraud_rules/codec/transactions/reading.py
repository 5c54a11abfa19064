"""Begins to read records in a schema's format: the quick reader at once, the careful one for a record at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from fraud_rules.codec.transactions.columns import QuickReadResult, quick_reader
from fraud_rules.codec.transactions.field_value import Value
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.record import check_size, read_record, read_tree
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.record_format import WITH_SCHEMAS, FormatName
from fraud_rules.model.schema import TransactionSchema

Read: TypeAlias = Callable[[int], tuple[Value, ...] | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """The quick reader's result, and the careful reader.

    `read` reads the record at a position, as `record.read_record` does. It returns None for a tombstone too.
    """

    quick: QuickReadResult
    read: Read


def begin_reading(records: RawTransactions, schema: TransactionSchema, max_bytes: int) -> Reading:
    """Read the records that are certainly valid. Raises RegistryUnavailable for a format with a registry."""
    if schema.format.format in WITH_SCHEMAS:
        return _of_decoded(records, schema, max_bytes)

    def read(position: int) -> tuple[Value, ...] | None:
        value = records.values[position]
        return None if value is None else read_record(value, schema, max_bytes, _cells(records, position, schema))

    return Reading(quick_reader(schema).read(records, max_bytes), read)


def _cells(records: RawTransactions, position: int, schema: TransactionSchema) -> dict[str, bytes | None]:
    return {field.name: records.cells(field.source, (position,))[0] for field in schema.beside_value}


def _of_decoded(records: RawTransactions, schema: TransactionSchema, max_bytes: int) -> Reading:
    """Read records whose format has schemas. A process without such a format does not load its libraries."""
    from fraud_rules.codec.formats.record_format import record_format
    from fraud_rules.codec.transactions.tree_columns import read_trees

    values = records.values
    small = [value if value is None or len(value) <= max_bytes else None for value in values]
    trees = record_format(schema).trees(small, records.headers)

    def read(position: int) -> tuple[Value, ...] | None:
        value, tree = values[position], trees[position]
        if value is None:
            return None
        check_size(value, max_bytes)
        if isinstance(tree, RecordRejected):
            raise tree
        cells = _cells(records, position, schema)
        if isinstance(tree, bytes):
            return read_record(tree, schema, max_bytes, cells)
        if not isinstance(tree, dict):
            raise RecordRejected("not_an_object", "the record has no named members")
        return read_tree(tree, schema, cells)

    if schema.format.format is FormatName.JSON_SCHEMA:
        texts = replace(records, values=[tree if isinstance(tree, bytes) else None for tree in trees])
        return Reading(quick_reader(schema).read(texts, max_bytes), read)
    return Reading(read_trees(trees, records, schema), read)

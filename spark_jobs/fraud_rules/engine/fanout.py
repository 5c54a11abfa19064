"""Sends each transaction of a batch to key groups: once per grouping in force, not once per rule.

A transaction belongs to a grouping if the grouping is in force at the transaction's append time and the transaction has
no null in the grouping's fields. The empty grouping has one key, so one key group gets all its transactions. A blob
packs the rows of one key group. In a grouping by an entity, each of the transaction's rows has a key group of its own
(see `role_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.distinct import distinct
from fraud_rules.engine.keygroup import hash_text, key_groups_of
from fraud_rules.engine.role_rows import has_no_role, role_rows
from fraud_rules.model.ruleset import Grouping, RuleTimeline
from fraud_rules.model.schema import DeclaredEntity, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

Ints = NDArray[np.int64]

_NO_ROWS: Ints = np.empty(0, dtype=np.int64)


class _BlobPart(msgspec.Struct, array_like=True, gc=False):
    """Rows ordered by grouping. `rows` packs `counts[0]` rows of `groupings[0]`, then `counts[1]` rows of
    `groupings[1]`, and so on."""

    groupings: list[Grouping]
    counts: list[int]
    rows: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_BlobPart]).decode

EMPTY_BLOB = _encode([])
"""A blob without rows. A key group that gets no rows processes this blob to clean up its state."""


class GroupingTargets(NamedTuple):
    """The rows of a grouping by their positions in `batch`, with their key groups.

    `batch` has the transactions, or in a grouping by an entity the rows of their roles.
    """

    fields: Grouping
    batch: TransactionBatch
    rows: Ints
    key_groups: Ints


def fan_out(
    batch: TransactionBatch,
    timeline: RuleTimeline,
    schema: TransactionSchema,
    key_groups: int,
    only: Collection[int] | None = None,
) -> dict[int, bytes]:
    """Pack the rows of each key group into a blob, in the batch's order. The result excludes key groups without rows,
    and all key groups outside `only`. A blob has a part for the groupings by fields, and one for each entity."""
    sources: dict[int, list[GroupingTargets]] = {}
    for each in targets_of(batch, timeline, schema, key_groups):
        selected = slice(None) if only is None else _mask_of(only, key_groups)[each.key_groups]
        chosen = each._replace(rows=each.rows[selected], key_groups=each.key_groups[selected])
        sources.setdefault(id(each.batch), []).append(chosen)
    parts: dict[int, list[_BlobPart]] = {}
    for targets in sources.values():
        for key_group, part in _pack_rows(targets, key_groups):
            parts.setdefault(key_group, []).append(part)
    return {key_group: _encode(parts[key_group]) for key_group in sorted(parts)}


def targets_of(
    batch: TransactionBatch, timeline: RuleTimeline, schema: TransactionSchema, key_groups: int
) -> list[GroupingTargets]:
    """The rows of each grouping in force, sorted by grouping."""
    by_entity: dict[DeclaredEntity | None, dict[Grouping, Ints]] = {}
    for fields, in_force in _groupings_in_force(batch, timeline).items():
        by_entity.setdefault(schema.entity_of(fields), {})[fields] = in_force
    found: list[GroupingTargets] = []
    for entity, groupings in by_entity.items():
        rows = role_rows(batch, entity)
        in_force_of_rows = groupings if entity is None else _groupings_in_force(rows, timeline)
        chosen = {fields: in_force_of_rows.get(fields, _NO_ROWS) for fields in groupings}
        found += _targets_in(rows, chosen, key_groups)
    return sorted(found, key=lambda each: each.fields)


def _targets_in(
    batch: TransactionBatch, groupings: Mapping[Grouping, Ints], key_groups: int
) -> Iterator[GroupingTargets]:
    hashes: dict[str, NDArray[np.uint64]] = {}
    for fields, in_force in groupings.items():
        rows = _without_null_keys(batch, fields, in_force)
        for name in fields:
            if name not in hashes:
                hashes[name] = _hashes(batch.columns[name])
        targets = key_groups_of(fields, [hashes[name][rows] for name in fields], len(rows), key_groups)
        yield GroupingTargets(fields, batch, rows, targets)


def null_keys(batch: TransactionBatch, timeline: RuleTimeline, schema: TransactionSchema) -> NDArray[np.bool_]:
    """The mask of the rows that have a null in a field of a grouping in force: this grouping does not evaluate them.

    An entity is null if the fields of all its roles are null.
    """
    found = np.zeros(len(batch), np.bool_)
    validity = {name: column.valid for name, column in batch.columns.items()}
    nullable = {name: valid for name, valid in validity.items() if valid is not None and not valid.all()}
    if nullable:
        for fields, rows in _groupings_in_force(batch, timeline).items():
            for valid in (nullable[name] for name in fields if name in nullable):
                found[rows] |= ~valid[rows]
            entity = schema.entity_of(fields)
            if entity is not None:
                found[rows] |= has_no_role(batch, entity)[rows]
    return found


def rows_of_groupings(
    batch: TransactionBatch, timeline: RuleTimeline, member: str
) -> list[tuple[Grouping, TransactionBatch]]:
    """The rows of each grouping in force that has this field or entity, sorted by grouping, in the batch's order. For
    an entity, `batch` has rows of `role_rows`."""
    groupings = _groupings_in_force(batch, timeline).items()
    return [
        (fields, batch.take(_without_null_keys(batch, fields, rows))) for fields, rows in groupings if member in fields
    ]


def rows_by_key_group(batch: TransactionBatch, fields: Grouping, key_groups: int) -> dict[int, TransactionBatch]:
    """Split the rows of a grouping by key group, in the batch's order. Rows without a grouping key are left out.

    In a grouping by an entity, these are rows of `role_rows`.
    """
    rows = _without_null_keys(batch, fields, np.arange(len(batch)))
    targets = key_groups_of(fields, [_hashes(batch.columns[name])[rows] for name in fields], len(rows), key_groups)
    return {key_group: batch.take(rows[targets == key_group]) for key_group in np.unique(targets).tolist()}


def in_arrival_order(batch: TransactionBatch) -> TransactionBatch:
    """Sort the rows by (append time, partition, offset)."""
    if len(batch) < 2:  # in a small batch, most groupings have one row in a key group
        return batch
    order = np.lexsort((batch.offset, batch.partition, batch.append_ms))
    if np.array_equal(order, np.arange(len(order))):
        return batch
    return batch.take(order)


def unpack_blobs(
    blobs: Iterable[bytes], arrange: Callable[[TransactionBatch], TransactionBatch] = in_arrival_order
) -> dict[Grouping, TransactionBatch]:
    """Unpack the rows of a key group's blobs, by grouping. `arrange` sorts the rows of one grouping."""
    parts: dict[Grouping, list[TransactionBatch]] = {}
    for blob in blobs:
        for part in _decode(blob):
            batch, start = TransactionBatch.unpack(part.rows), 0
            for fields, count in zip(part.groupings, part.counts, strict=True):
                parts.setdefault(fields, []).append(_slice(batch, start, start + count))
                start += count
    return {fields: arrange(TransactionBatch.concat(parts[fields])) for fields in sorted(parts)}


def _groupings_in_force(batch: TransactionBatch, timeline: RuleTimeline) -> dict[Grouping, Ints]:
    """The rows of each grouping: those at whose append time the grouping is in force."""
    counts, inverse = distinct(timeline.rule_counts(timeline.entry_counts_of(batch)))
    in_force = [timeline.rule_set(int(count)).groupings for count in counts]
    all_rows = np.arange(len(batch))
    found: dict[Grouping, Ints] = {}
    for fields in sorted({fields for groupings in in_force for fields in groupings}):
        is_in_force = np.array([fields in groupings for groupings in in_force])
        found[fields] = all_rows if is_in_force.all() else np.flatnonzero(is_in_force[inverse])
    return found


def _without_null_keys(batch: TransactionBatch, fields: Grouping, rows: Ints) -> Ints:
    """The rows that have a value in each of the fields."""
    for name in fields:
        valid = batch.columns[name].valid
        if valid is not None:
            rows = rows[valid[rows]]
    return rows


def _hashes(column: Column) -> NDArray[np.uint64]:
    """The column as `key_groups_of` reads it: the values of a number column, or the hashes of the strings."""
    if column.dictionary is None:
        return column.values.astype(np.int64, copy=False).view(np.uint64)
    table = np.array([hash_text(text) for text in column.dictionary] or [0], dtype=np.uint64)
    return table[column.values]


def _pack_rows(groupings: Sequence[GroupingTargets], key_groups: int) -> Iterator[tuple[int, _BlobPart]]:
    """Gather all rows of one batch once, ordered by (key group, grouping, row), then split them by key group."""
    targets = np.concatenate([each.key_groups for each in groupings])
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    gathered = groupings[0].batch.take(np.concatenate([each.rows for each in groupings])[order])
    counts = np.stack([np.bincount(each.key_groups, minlength=key_groups) for each in groupings])
    ends = np.cumsum(counts.sum(axis=0))
    start = 0
    for key_group, end in enumerate(ends.tolist()):
        if end > start:
            parts = [(each.fields, n) for each, n in zip(groupings, counts[:, key_group].tolist(), strict=True) if n]
            packed = _slice(gathered, start, end).pack()
            yield key_group, _BlobPart([fields for fields, _ in parts], [n for _, n in parts], packed)
        start = end


def _slice(batch: TransactionBatch, start: int, end: int) -> TransactionBatch:
    """Rows [start, end) as views, without a copy."""
    indices: Any = slice(start, end)
    return batch.take(indices)


def _mask_of(chosen: Collection[int], key_groups: int) -> NDArray[np.bool_]:
    mask = np.zeros(key_groups, dtype=np.bool_)
    mask[list(chosen)] = True
    return mask

"""Sends each transaction of a batch to key groups: once per grouping in force, not once per rule.

A transaction belongs to a grouping if the grouping is in force at the transaction's append time and the transaction has
no null in the grouping's fields. The empty grouping has one key, so one key group gets all its transactions. A blob
packs the rows of one key group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.distinct import distinct
from fraud_rules.engine.keygroup import hash_text, key_groups_of
from fraud_rules.model.ruleset import Grouping, RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch

Ints = NDArray[np.int64]


class _Blob(msgspec.Struct, array_like=True, gc=False):
    """Rows ordered by grouping. `rows` packs `counts[0]` rows of `groupings[0]`, then `counts[1]` rows of
    `groupings[1]`, and so on."""

    groupings: list[Grouping]
    counts: list[int]
    rows: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Blob).decode

EMPTY_BLOB = _encode(_Blob([], [], b""))
"""A blob without rows. A key group that gets no rows processes this blob to clean up its state."""


def fan_out(
    batch: TransactionBatch, timeline: RuleTimeline, key_groups: int, only: Collection[int] | None = None
) -> dict[int, bytes]:
    """Pack the rows of each key group into a blob, in the batch's order. The result excludes key groups without rows,
    and all key groups outside `only`."""
    groupings: list[Grouping] = []
    rows_by_grouping: list[Ints] = []
    targets_by_grouping: list[Ints] = []
    for fields, rows, targets in targets_of(batch, timeline, key_groups):
        groupings.append(fields)
        selected = slice(None) if only is None else _mask_of(only, key_groups)[targets]
        rows_by_grouping.append(rows[selected])
        targets_by_grouping.append(targets[selected])
    if not groupings:
        return {}
    return _pack_rows(batch, groupings, rows_by_grouping, targets_by_grouping, key_groups)


def targets_of(
    batch: TransactionBatch, timeline: RuleTimeline, key_groups: int
) -> Iterator[tuple[Grouping, Ints, Ints]]:
    """Each grouping in force, sorted, with the positions of its rows and their key groups."""
    hashes: dict[str, NDArray[np.uint64]] = {}
    for fields, in_force in _groupings_in_force(batch, timeline).items():
        rows = _without_null_keys(batch, fields, in_force)
        for name in fields:
            if name not in hashes:
                hashes[name] = _hashes(batch.columns[name])
        yield fields, rows, key_groups_of(fields, [hashes[name][rows] for name in fields], len(rows), key_groups)


def null_keys(batch: TransactionBatch, timeline: RuleTimeline) -> NDArray[np.bool_]:
    """The mask of the rows that have a null in a field of a grouping in force: this grouping does not evaluate them."""
    found = np.zeros(len(batch), np.bool_)
    validity = {name: column.valid for name, column in batch.columns.items()}
    nullable = {name: valid for name, valid in validity.items() if valid is not None and not valid.all()}
    if nullable:
        for fields, rows in _groupings_in_force(batch, timeline).items():
            for valid in (nullable[name] for name in fields if name in nullable):
                found[rows] |= ~valid[rows]
    return found


def rows_by_key_group(batch: TransactionBatch, fields: Grouping, key_groups: int) -> dict[int, TransactionBatch]:
    """Split the rows of a grouping by key group, in the batch's order. Rows without a grouping key are left out."""
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
        decoded = _decode(blob)
        start = 0
        if not decoded.groupings:
            continue
        batch = TransactionBatch.unpack(decoded.rows)
        for fields, count in zip(decoded.groupings, decoded.counts, strict=True):
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


def _pack_rows(
    batch: TransactionBatch,
    groupings: Sequence[Grouping],
    rows_by_grouping: Sequence[Ints],
    targets_by_grouping: Sequence[Ints],
    key_groups: int,
) -> dict[int, bytes]:
    """Gather all rows once, ordered by (key group, grouping, row), then split them into blobs.

    `targets_by_grouping` holds the key group of each row of `rows_by_grouping`.
    """
    targets = np.concatenate(targets_by_grouping)
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    gathered = batch.take(np.concatenate(rows_by_grouping)[order])
    counts = np.stack([np.bincount(each, minlength=key_groups) for each in targets_by_grouping])
    ends = np.cumsum(counts.sum(axis=0))
    blobs: dict[int, bytes] = {}
    start = 0
    for key_group, end in enumerate(ends.tolist()):
        if end > start:
            parts = [(fields, n) for fields, n in zip(groupings, counts[:, key_group].tolist(), strict=True) if n]
            packed = _slice(gathered, start, end).pack()
            blobs[key_group] = _encode(_Blob([fields for fields, _ in parts], [n for _, n in parts], packed))
        start = end
    return blobs


def _slice(batch: TransactionBatch, start: int, end: int) -> TransactionBatch:
    """Rows [start, end) as views, without a copy."""
    indices: Any = slice(start, end)
    return batch.take(indices)


def _mask_of(chosen: Collection[int], key_groups: int) -> NDArray[np.bool_]:
    mask = np.zeros(key_groups, dtype=np.bool_)
    mask[list(chosen)] = True
    return mask

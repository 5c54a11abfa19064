"""The chunks of a key group's log: what each batch accepted, merged as they age.

Chunks are merged as in a log-structured merge tree, so that starting from the log reads few of them: `FAN` chunks of a
level make one of the next. Merging leaves out rows that the retention bound has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from fraud_rules.schema import TIME_FIELD
from fraud_rules.statelog import StateLog
from fraud_rules.transaction import Column, TransactionBatch
from fraud_rules.window.cell import Marks
from fraud_rules.window.layout import M_RULE, M_WIDTH

FAN = 16
"""Chunks of one level that become one of the next."""


class Part(msgspec.Struct, array_like=True, gc=False):
    """What a chunk holds of one cell: packed rows whose `offset` is the arrival number, and marks."""

    cell: int
    rows: bytes
    marks: bytes | None


class ChunkInfo(msgspec.Struct, array_like=True):
    """A chunk in the head: `newest_ms` is the youngest event time of each cell's rows."""

    id: int
    level: int
    newest_ms: dict[int, int]
    has_marks: bool


_parts_encode = msgspec.msgpack.Encoder().encode
_parts_decode = msgspec.msgpack.Decoder(list[Part]).decode


def pack_marks(marks: Marks) -> bytes:
    """Marks as bytes; `unpack_marks` gives them back."""
    return _as_batch(marks).pack()


def unpack_marks(blob: bytes) -> Marks:
    """What `pack_marks` made."""
    return _as_marks(TransactionBatch.unpack(blob))


def _as_batch(marks: Marks) -> TransactionBatch:
    """Marks ride in a batch, one row a mark: their numbers and the key's values are its columns."""
    columns = {f"m{c}": Column(np.ascontiguousarray(marks.rows[:, c]), None, None) for c in range(M_WIDTH)}
    columns |= {f"k{k}": key for k, key in enumerate(marks.keys)}
    nothing = np.zeros(len(marks.rows), dtype=np.int64)
    return TransactionBatch(nothing, nothing.astype(np.int32), nothing, columns)


def _as_marks(batch: TransactionBatch) -> Marks:
    rows = np.stack([batch.columns[f"m{c}"].values for c in range(M_WIDTH)], axis=1)
    return Marks(rows, tuple(batch.columns[f"k{k}"] for k in range(len(batch.columns) - M_WIDTH)))


def encode_parts(parts: Sequence[Part]) -> bytes:
    """A chunk."""
    return _parts_encode(list(parts))


def decode_parts(blob: bytes) -> list[Part]:
    """The parts of a chunk."""
    return _parts_decode(blob)


def newest_ms(rows: TransactionBatch) -> int:
    """The youngest event time of the rows, of which there are some."""
    return int(rows.columns[TIME_FIELD].values.max())


def drop_expired(log: StateLog, chunks: Sequence[ChunkInfo], bounds: Mapping[int, int]) -> list[ChunkInfo]:
    """Delete the chunks whose rows have all left their cells (those of cells without a bound have)."""
    kept = []
    for info in chunks:
        live = any(cell in bounds and newest >= bounds[cell] for cell, newest in info.newest_ms.items())
        if live or info.has_marks:
            kept.append(info)
        else:
            log.delete_chunk(info.id)
    return kept


def merge_aged(
    log: StateLog, chunks: Sequence[ChunkInfo], bounds: Mapping[int, int], rules: frozenset[int]
) -> list[ChunkInfo]:
    """Where a level has twice FAN chunks, make one of its oldest FAN.

    `bounds`: retention bound by live cell. `rules`: incarnations in force; marks of others are left out.
    """
    chunks = list(chunks)
    for level in range(max((info.level for info in chunks), default=0) + 1):
        run = [info for info in chunks if info.level == level]
        if len(run) < 2 * FAN:
            continue
        oldest = run[:FAN]
        first = chunks.index(oldest[0])
        merged = _merge(log, oldest, bounds, rules)
        chunks[first : first + FAN] = [merged] if merged else []
    return chunks


def _merge(
    log: StateLog, run: Sequence[ChunkInfo], bounds: Mapping[int, int], rules: frozenset[int]
) -> ChunkInfo | None:
    """One chunk of a run's live rows and marks, under the id of its first; None when nothing of it lives."""
    parts = [part for info in run for part in decode_parts(log.chunk(info.id))]
    for info in run:
        log.delete_chunk(info.id)
    merged: list[Part] = []
    youngest: dict[int, int] = {}
    for cell in sorted(bounds):
        mine = [part for part in parts if part.cell == cell]
        rows = live_rows((TransactionBatch.unpack(part.rows) for part in mine), bounds[cell])
        marks = _merged_marks([unpack_marks(part.marks) for part in mine if part.marks is not None], rules)
        if len(rows):
            youngest[cell] = newest_ms(rows)
        if len(rows) or marks is not None:
            merged.append(Part(cell, rows.pack(), pack_marks(marks) if marks else None))
    if not merged:
        return None
    log.put_chunk(run[0].id, encode_parts(merged))
    return ChunkInfo(run[0].id, run[0].level + 1, youngest, any(part.marks is not None for part in merged))


def live_rows(batches: Iterable[TransactionBatch], bound: int) -> TransactionBatch:
    """The rows at or above the retention bound, in the order given."""
    rows = TransactionBatch.concat(list(batches))
    if TIME_FIELD not in rows.columns:
        return rows
    return rows.take(rows.columns[TIME_FIELD].values >= bound)


def _merged_marks(marks: Sequence[Marks], rules: frozenset[int]) -> Marks | None:
    """The latest mark of each (rule in force, key)."""
    latest: dict[tuple[object, ...], tuple[int, int]] = {}
    for number, each in enumerate(marks):
        keys = [_plain_values(column) for column in each.keys]
        for i, rule in enumerate(each.rows[:, M_RULE].tolist()):
            if rule in rules:
                latest[(rule, *(values[i] for values in keys))] = (number, i)
    if not latest:
        return None
    batches = [_as_batch(each) for each in marks]
    starts = np.cumsum([0, *(len(each.rows) for each in marks)])
    chosen = np.array(sorted(int(starts[number]) + i for number, i in latest.values()), dtype=np.int64)
    return _as_marks(TransactionBatch.concat(batches).take(chosen))


def _plain_values(column: Column) -> list[object]:
    values = column.values.tolist()
    return values if column.dictionary is None else [column.dictionary[code] for code in values]

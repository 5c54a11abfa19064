"""The chunks of a key group's log: the rows that each batch accepted, merged as they age.

Chunks are merged as in a log-structured merge tree, so that a start from the log reads few chunks: `FAN` chunks of one
level become one chunk of the next. A merge drops rows before the retention bound, and spent marks.

Only the latest mark of a rule and key counts, so the removal of a spent mark must not uncover an older mark that is not
spent. An older mark can outlast a later mark only through its count of suppressed alerts. So a merge drops the marks of
a rule that has suppressed alerts only if no older chunk has marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fraud_rules.engine.state.grouping_state import Marks
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.window.layout import M_LAST_TIME, M_RESET_TIME, M_RULE, M_WIDTH
from fraud_rules.engine.window.spent import Horizon, find_spent
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.transaction import Column, TransactionBatch

FAN = 16
"""The number of chunks of one level that become one chunk of the next level."""


class ChunkPart(msgspec.Struct, array_like=True, gc=False):
    """A chunk's content for one grouping state: packed rows whose `offset` is the arrival number, and marks."""

    state_id: int
    rows: bytes
    marks: bytes | None


class ChunkInfo(msgspec.Struct, array_like=True):
    """A chunk in the head. `newest_ms` is the newest event time of the rows, by grouping state. `marks_ms` holds, by
    grouping state, the event times of the newest alert and the newest reset of the chunk's marks. It is None if the end
    of some marks depends on more than time."""

    id: int
    level: int
    newest_ms: dict[int, int]
    has_marks: bool
    marks_ms: dict[int, tuple[int, int]] | None = None

    def marks_are_spent(self, horizons: Mapping[int, Horizon]) -> bool:
        """Whether all marks of the chunk are spent."""
        if not self.has_marks:
            return True
        return self.marks_ms is not None and all(
            state_id not in horizons or horizons[state_id].is_past(*times) for state_id, times in self.marks_ms.items()
        )


class MarkRules(NamedTuple):
    """Incarnations of rules: those whose marks are `kept`, and those that have suppressed alerts (None: unknown)."""

    kept: frozenset[int]
    suppressing: frozenset[int] | None

    def expire_by_time(self, marks: Marks) -> bool:
        """Whether the marks exclude all rules that have suppressed alerts."""
        if self.suppressing is None:
            return False
        return self.suppressing.isdisjoint(marks.rows[:, M_RULE].tolist())


_parts_encode = msgspec.msgpack.Encoder().encode
_parts_decode = msgspec.msgpack.Decoder(list[ChunkPart]).decode


def pack_marks(marks: Marks) -> bytes:
    """Encode marks as bytes for `unpack_marks`."""
    return _as_batch(marks).pack()


def unpack_marks(blob: bytes) -> Marks:
    """Decode the bytes of `pack_marks`."""
    return _as_marks(TransactionBatch.unpack(blob))


def _as_batch(marks: Marks) -> TransactionBatch:
    """Convert marks to a batch with one row per mark. Its columns are the mark's numbers and the key's values."""
    columns = {f"m{c}": Column(np.ascontiguousarray(marks.rows[:, c]), None, None) for c in range(M_WIDTH)}
    columns |= {f"k{k}": key for k, key in enumerate(marks.keys)}
    nothing = np.zeros(len(marks.rows), dtype=np.int64)
    return TransactionBatch(nothing, nothing.astype(np.int32), nothing, columns)


def _as_marks(batch: TransactionBatch) -> Marks:
    rows = np.stack([batch.columns[f"m{c}"].values for c in range(M_WIDTH)], axis=1)
    return Marks(rows, tuple(batch.columns[f"k{k}"] for k in range(len(batch.columns) - M_WIDTH)))


def encode_parts(parts: Sequence[ChunkPart]) -> bytes:
    """Encode the parts of a chunk."""
    return _parts_encode(list(parts))


def decode_parts(blob: bytes) -> list[ChunkPart]:
    """Decode the parts of a chunk."""
    return _parts_decode(blob)


def newest_ms(rows: TransactionBatch) -> int:
    """The newest event time of the rows, of which there must be at least one."""
    return int(rows.columns[TIME_FIELD].values.max())


def drop_expired(log: StateLog, chunks: Sequence[ChunkInfo], horizons: Mapping[int, Horizon]) -> list[ChunkInfo]:
    """Delete the chunks whose rows and marks no longer count. Those of a state without a horizon do not count."""
    kept = []
    for info in chunks:
        live = any(
            state_id in horizons and newest >= horizons[state_id].bound_ms
            for state_id, newest in info.newest_ms.items()
        )
        if live or not info.marks_are_spent(horizons):
            kept.append(info)
        else:
            log.delete_chunk(info.id)
    return kept


def merge_aged(
    log: StateLog, chunks: Sequence[ChunkInfo], horizons: Mapping[int, Horizon], rules: MarkRules
) -> list[ChunkInfo]:
    """On each level with twice FAN chunks, merge the oldest FAN chunks. `horizons` are by live grouping state."""
    chunks = list(chunks)
    for level in range(max((info.level for info in chunks), default=0) + 1):
        run = [info for info in chunks if info.level == level]
        if len(run) < 2 * FAN:
            continue
        oldest = run[:FAN]
        first = chunks.index(oldest[0])
        is_oldest = not any(info.has_marks for info in chunks[:first])
        merged = _merge(log, oldest, horizons, rules, is_oldest=is_oldest)
        chunks[first : first + FAN] = [merged] if merged else []
    return chunks


def _merge(
    log: StateLog,
    run: Sequence[ChunkInfo],
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
    *,
    is_oldest: bool,
) -> ChunkInfo | None:
    """Merge the live rows and marks of a run into one chunk with the first chunk's id. None if nothing is live."""
    parts = [part for info in run for part in decode_parts(log.chunk(info.id))]
    for info in run:
        log.delete_chunk(info.id)
    merged: list[ChunkPart] = []
    youngest: dict[int, int] = {}
    kept: dict[int, list[Marks]] = {}
    for state_id in sorted(horizons):
        mine = [part for part in parts if part.state_id == state_id]
        rows = live_rows((TransactionBatch.unpack(part.rows) for part in mine), horizons[state_id].bound_ms)
        marks = _merged_marks([unpack_marks(part.marks) for part in mine if part.marks is not None], rules.kept)
        if marks is not None:
            marks = _drop_spent(marks, horizons[state_id], rules, is_oldest=is_oldest)
        if marks is not None:
            kept[state_id] = [marks]
        if len(rows):
            youngest[state_id] = newest_ms(rows)
        if len(rows) or marks is not None:
            merged.append(ChunkPart(state_id, rows.pack(), None if marks is None else pack_marks(marks)))
    if not merged:
        return None
    log.put_chunk(run[0].id, encode_parts(merged))
    return ChunkInfo(run[0].id, run[0].level + 1, youngest, bool(kept), marks_ms_of(kept, rules))


def marks_ms_of(marks: Mapping[int, Sequence[Marks]], rules: MarkRules) -> dict[int, tuple[int, int]] | None:
    """Compute `ChunkInfo.marks_ms`. `marks` are the marks of a chunk by grouping state."""
    if not all(rules.expire_by_time(part) for parts in marks.values() for part in parts):
        return None
    return {
        state_id: (
            max(int(part.rows[:, M_LAST_TIME].max()) for part in parts),
            max(int(part.rows[:, M_RESET_TIME].max()) for part in parts),
        )
        for state_id, parts in marks.items()
    }


def _drop_spent(marks: Marks, horizon: Horizon, rules: MarkRules, *, is_oldest: bool) -> Marks | None:
    """Drop the spent marks whose removal cannot uncover an older mark. Returns None if no mark is left."""
    gone = find_spent(marks.rows, horizon)
    if not is_oldest:
        suppressing = rules.suppressing
        gone &= (
            ~np.isin(marks.rows[:, M_RULE], np.array(sorted(suppressing), dtype=np.int64))
            if suppressing is not None
            else False
        )
    if gone.all():
        return None
    return Marks(marks.rows[~gone], tuple(key.take(~gone) for key in marks.keys))


def live_rows(batches: Iterable[TransactionBatch], bound: int) -> TransactionBatch:
    """The rows at or after the retention bound, in the given order."""
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

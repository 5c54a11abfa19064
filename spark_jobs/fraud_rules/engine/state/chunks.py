"""The chunks of a key group's state log: the rows and marks that each batch added, merged as they age.

Chunks merge as in a log-structured merge tree, so that a restore reads few chunks: `MERGE_WIDTH` chunks of one level
become one chunk of the next level. A merge drops the rows below the retention bound, and spent marks. No chunk grows
beyond `MAX_CHUNK_BYTES`, so that the cost of a merge and the size of a record in Kafka stay bounded whatever the length
of the windows.

Several chunks can have a mark of the same rule and key, and only the latest mark counts. If a merge drops the latest
mark, a mark in an older chunk counts again. This is harmless if the older mark is spent too. The older mark can be
unspent only if it counts suppressed alerts. So a merge drops the spent marks of a rule that has suppressed alerts only
if no older chunk has marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fraud_rules.engine.state.grouping_state import Marks
from fraud_rules.engine.statelog import StateLog, chunk_name
from fraud_rules.engine.window.layout import M_LAST_TIME, M_RESET_TIME, M_RULE, M_WIDTH
from fraud_rules.engine.window.spent import Horizon, find_spent
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.transaction import Column, TransactionBatch

MERGE_WIDTH = 16
"""The number of chunks of one level that become one chunk of the next level."""

MAX_CHUNK_BYTES = 4_194_304
"""The size above which a chunk is not merged any more. A chunk that is larger has a single row."""


class ChunkPart(msgspec.Struct, array_like=True, gc=False):
    """A chunk's content for one grouping state: its packed rows and marks. The `offset` of a row is its arrival
    number."""

    state_id: int
    rows: bytes
    marks: bytes | None


class ChunkInfo(msgspec.Struct, array_like=True):
    """The head's entry of a chunk.

    `name`: see `statelog`. `newest_ms` is the newest event time of the rows, by the id of the grouping state.
    `marks_ms` holds, by the same id, the event times of the newest alert and of the newest reset in the marks. It is
    None if time alone does not decide when all marks are spent. `added_at` is the log's version that added a prepared
    chunk, None for any other chunk.
    """

    name: str
    level: int
    size_bytes: int
    newest_ms: dict[int, int]
    has_marks: bool
    marks_ms: dict[int, tuple[int, int]] | None = None
    added_at: int | None = None

    @property
    def number(self) -> int:
        """The log's version at which the chunk's first rows were added."""
        return int(self.name.partition("-")[0]) if self.added_at is None else self.added_at

    def marks_are_spent(self, horizons: Mapping[int, Horizon]) -> bool:
        """Whether all marks of the chunk are spent."""
        if not self.has_marks:
            return True
        return self.marks_ms is not None and all(
            state_id not in horizons or horizons[state_id].is_past(*times) for state_id, times in self.marks_ms.items()
        )


class MarkRules(NamedTuple):
    """Two sets of rule incarnations: the rules whose marks are `kept`, and the rules that have suppressed alerts (None:
    unknown)."""

    kept: frozenset[int]
    suppressing: frozenset[int] | None

    def expire_by_time(self, marks: Marks) -> bool:
        """Whether time alone decides when these marks are spent: none of their rules has suppressed alerts."""
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
    zeros = np.zeros(len(marks.rows), dtype=np.int64)
    return TransactionBatch(zeros, zeros.astype(np.int32), zeros, columns)


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
    """The newest event time of one or more rows."""
    return int(rows.columns[TIME_FIELD].values.max())


def age_chunks(
    log: StateLog, chunks: Sequence[ChunkInfo], horizons: Mapping[int, Horizon], rules: MarkRules, key_group: int
) -> list[ChunkInfo]:
    """Delete the chunks without live rows and marks, then merge some of the others. Returns the new list of chunks.

    `horizons` has the horizon of each grouping state by its id. A removed grouping state has no horizon. Its rows and
    marks are not live.
    """
    bounds_ms = {state_id: horizon.bound_ms for state_id, horizon in horizons.items()}
    kept: list[ChunkInfo] = []
    stale = None
    for info in chunks:
        if _has_live_rows(info, bounds_ms):
            kept.append(info)
        elif info.marks_are_spent(horizons):
            log.delete_chunk(info.name)
        else:
            kept.append(info)
            if stale is None and info.newest_ms:
                stale = info
    return _merge_aged(log, kept, stale, horizons, rules, key_group)


def _has_live_rows(info: ChunkInfo, bounds_ms: Mapping[int, int]) -> bool:
    """Whether a row of the chunk is at or after the retention bound of its grouping state."""
    for state_id, newest_ms in info.newest_ms.items():  # a generator here would take a tenth of a small batch
        bound_ms = bounds_ms.get(state_id)
        if bound_ms is not None and newest_ms >= bound_ms:
            return True
    return False


def _merge_aged(
    log: StateLog,
    chunks: list[ChunkInfo],
    stale: ChunkInfo | None,
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
    key_group: int,
) -> list[ChunkInfo]:
    """Merge the oldest chunks of the lowest level that has twice MERGE_WIDTH chunks. Returns the new list of chunks.

    Each batch adds one chunk to most key groups. So the first merge of a key group waits for some more chunks, as many
    as its number says, and one batch merges a few key groups instead of all.
    A call merges on one level only, so that the merges of several levels do not fall on the same batch. Without such a
    level, it removes the rows of the chunk `stale`: all of them have expired, but its marks are still needed.
    """
    counts = Counter([info.level for info in chunks])
    for level in sorted(counts):
        turn = 0 if level else key_group % MERGE_WIDTH
        if counts[level] >= 2 * MERGE_WIDTH + turn:
            run = [info for info in chunks if info.level == level]
            return _promote(log, chunks, _mergeable(run), horizons, rules)
    return chunks if stale is None else _replace(log, chunks, [stale], stale.level, horizons, rules)


def _mergeable(run: Sequence[ChunkInfo]) -> Sequence[ChunkInfo]:
    """The oldest chunks of a level that fit into one chunk: one at least, and at most MERGE_WIDTH."""
    size_bytes = 0
    for count, info in enumerate(run[:MERGE_WIDTH]):
        size_bytes += info.size_bytes
        if count and size_bytes > MAX_CHUNK_BYTES:
            return run[:count]
    return run[:MERGE_WIDTH]


def _promote(
    log: StateLog,
    chunks: list[ChunkInfo],
    run: Sequence[ChunkInfo],
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
) -> list[ChunkInfo]:
    """Replace the oldest chunks of a level by one chunk of the next level. A single large chunk keeps its content."""
    level = run[0].level + 1
    if len(run) > 1:
        return _replace(log, chunks, run, level, horizons, rules)
    chunks[chunks.index(run[0])] = msgspec.structs.replace(run[0], level=level)
    return chunks


def _replace(
    log: StateLog,
    chunks: list[ChunkInfo],
    run: Sequence[ChunkInfo],
    level: int,
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
) -> list[ChunkInfo]:
    """Replace consecutive chunks by their merged content, if any is live."""
    first = chunks.index(run[0])
    has_older_marks = any(info.has_marks for info in chunks[:first])
    merged = _merge(log, run, level, horizons, rules, has_older_marks=has_older_marks)
    chunks[first : first + len(run)] = [merged] if merged else []
    return chunks


def _merge(
    log: StateLog,
    run: Sequence[ChunkInfo],
    level: int,
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
    *,
    has_older_marks: bool,
) -> ChunkInfo | None:
    """Merge consecutive chunks into one chunk with the number of the first. Returns None if no row and no mark is
    live."""
    parts = [part for info in run for part in decode_parts(log.chunk(info.name))]
    for info in run:
        log.delete_chunk(info.name)
    merged: list[ChunkPart] = []
    newest: dict[int, int] = {}
    marks_by_state: dict[int, list[Marks]] = {}
    for state_id in sorted(horizons):
        of_state = [part for part in parts if part.state_id == state_id]
        rows = live_rows((TransactionBatch.unpack(part.rows) for part in of_state), horizons[state_id].bound_ms)
        marks = _merged_marks([unpack_marks(part.marks) for part in of_state if part.marks is not None], rules.kept)
        if marks is not None:
            marks = _drop_spent(marks, horizons[state_id], rules, has_older_marks=has_older_marks)
        if marks is not None:
            marks_by_state[state_id] = [marks]
        if len(rows):
            newest[state_id] = newest_ms(rows)
        if len(rows) or marks is not None:
            merged.append(ChunkPart(state_id, rows.pack(), None if marks is None else pack_marks(marks)))
    if not merged:
        return None
    return put_chunk(log, run[0].number, level, merged, newest, marks_ms_of(marks_by_state, rules))


def put_chunk(
    log: StateLog,
    number: int,
    level: int,
    parts: Sequence[ChunkPart],
    newest: dict[int, int],
    marks_ms: dict[int, tuple[int, int]] | None,
) -> ChunkInfo:
    """Add a chunk of these parts to the log. `newest` and `marks_ms`: see `ChunkInfo`."""
    blob = encode_parts(parts)
    name = chunk_name(number, blob)
    log.put_chunk(name, blob)
    has_marks = any(part.marks is not None for part in parts)
    return ChunkInfo(name, level, len(blob), newest, has_marks, marks_ms)


def marks_ms_of(marks: Mapping[int, Sequence[Marks]], rules: MarkRules) -> dict[int, tuple[int, int]] | None:
    """Compute `ChunkInfo.marks_ms` from the marks of a chunk, by the id of their grouping state."""
    if not all(rules.expire_by_time(part) for parts in marks.values() for part in parts):
        return None
    return {
        state_id: (
            max(int(part.rows[:, M_LAST_TIME].max()) for part in parts),
            max(int(part.rows[:, M_RESET_TIME].max()) for part in parts),
        )
        for state_id, parts in marks.items()
    }


def _drop_spent(marks: Marks, horizon: Horizon, rules: MarkRules, *, has_older_marks: bool) -> Marks | None:
    """Drop the spent marks, except those whose removal could make an older mark count again. Returns None if no mark is
    left."""
    dropped = find_spent(marks.rows, horizon)
    if has_older_marks:
        suppressing = rules.suppressing
        dropped &= (
            ~np.isin(marks.rows[:, M_RULE], np.array(sorted(suppressing), dtype=np.int64))
            if suppressing is not None
            else False
        )
    if dropped.all():
        return None
    return Marks(marks.rows[~dropped], tuple(key.take(~dropped) for key in marks.keys))


def live_rows(batches: Iterable[TransactionBatch], bound_ms: int) -> TransactionBatch:
    """The rows at or after the retention bound, in the given order."""
    rows = TransactionBatch.concat(list(batches))
    if TIME_FIELD not in rows.columns:
        return rows
    return rows.take(rows.columns[TIME_FIELD].values >= bound_ms)


def _merged_marks(marks: Sequence[Marks], rules: frozenset[int]) -> Marks | None:
    """The latest mark of each rule and key, for the rules whose marks are kept."""
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

"""The chunks of a key group's state log: the rows and marks that each batch added. `chunk_ages` merges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fraud_rules.engine.state.grouping_state import Marks
from fraud_rules.engine.state.spent import Horizon
from fraud_rules.engine.statelog import StateLog, chunk_name
from fraud_rules.engine.window.layout import M_LAST_TIME, M_RESET_TIME, M_RULE, M_WIDTH, NONE
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.transaction import TransactionBatch

MAX_CHUNK_BYTES = 4_194_304
"""The size above which a chunk is not merged any more. A chunk that is larger has a single row."""


class ChunkPart(msgspec.Struct, array_like=True, gc=False):
    """A chunk's content for one grouping state: its packed rows, marks and sums. The `offset` of a row is its arrival
    number. `folded_end` is the arrival number after the last row in the sums."""

    state_id: int
    rows: bytes
    marks: bytes | None
    sums: bytes | None = None
    folded_end: int = NONE


class ChunkInfo(msgspec.Struct, array_like=True):
    """The head's entry of a chunk.

    `name`: see `statelog`. `newest_ms` is the newest event time of the rows, by the id of the grouping state.
    `marks_ms` holds, by the same id, the event times of the newest alert and of the newest reset in the marks. It is
    None if time alone does not decide when all marks are spent. `added_at` is the log's version that added a prepared
    chunk, None for any other chunk. `sums_ms` is the newest event time in the sums, by the same id, and `appended_ms`
    the newest append time of the rows.
    """

    name: str
    level: int
    size_bytes: int
    newest_ms: dict[int, int]
    has_marks: bool
    marks_ms: dict[int, tuple[int, int]] | None = None
    added_at: int | None = None
    sums_ms: dict[int, int] = {}
    appended_ms: int = NONE

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
    """Encode marks as bytes for `unpack_marks`: a batch with one row per mark. Its columns are the mark's numbers and
    the key's values."""
    return TransactionBatch.pack_numbered(marks.rows, "m", {f"k{k}": key for k, key in enumerate(marks.keys)})


def unpack_marks(blob: bytes) -> Marks:
    """Decode the bytes of `pack_marks`."""
    return _as_marks(TransactionBatch.unpack(blob))


def unpack_all_marks(blobs: Sequence[bytes]) -> Marks:
    """Decode several results of `pack_marks`: the marks of all of them, in order."""
    return _as_marks(TransactionBatch.unpack_all(blobs))


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


def put_chunk(
    log: StateLog,
    number: int,
    level: int,
    parts: Sequence[ChunkPart],
    newest: dict[int, int],
    marks_ms: dict[int, tuple[int, int]] | None,
    sums_ms: dict[int, int] | None = None,
    appended_ms: int = NONE,
) -> ChunkInfo:
    """Add a chunk of these parts to the log. `ChunkInfo` describes the other parameters."""
    blob = encode_parts(parts)
    name = chunk_name(number, blob)
    log.put_chunk(name, blob)
    has_marks = any(part.marks is not None for part in parts)
    return ChunkInfo(name, level, len(blob), newest, has_marks, marks_ms, None, sums_ms or {}, appended_ms)


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


def live_rows(batches: Iterable[TransactionBatch], bound_ms: int) -> TransactionBatch:
    """The rows at or after the retention bound, in the given order."""
    return rows_from(TransactionBatch.concat(list(batches)), bound_ms)


def rows_from(rows: TransactionBatch, bound_ms: int) -> TransactionBatch:
    """The rows at or after the retention bound, in the given order."""
    if TIME_FIELD not in rows.columns:
        return rows
    return rows.take(rows.columns[TIME_FIELD].values >= bound_ms)

"""Keeps a key group's view consistent with its durable log.

The log is the source of truth, and the view is a cache of it. Each batch adds at most one chunk and replaces the head.
The head's version and digest identify the log's content. A view with another version or digest is rebuilt.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence

import msgspec

from fraud_rules.engine.state.chunks import (
    ChunkInfo,
    ChunkPart,
    MarkRules,
    decode_parts,
    drop_expired,
    encode_parts,
    live_rows,
    marks_ms_of,
    merge_aged,
    newest_ms,
    pack_marks,
    unpack_marks,
)
from fraud_rules.engine.state.grouping_state import GroupingState, Marks
from fraud_rules.engine.state.store import KeyGroupView
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.spent import FOREVER_MS
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

Grouping = tuple[str, ...]


class GroupingStateHead(msgspec.Struct, array_like=True):
    """A grouping state in the head: its grouping and epoch, and its scalars."""

    id: int
    fields: Grouping
    incarnation: int
    epoch: int
    epoch_ms: int
    watermark_ms: int = at.NONE
    bound_ms: int = at.NONE
    first_ms: int = at.NONE
    next_sequence: int = 0


class Head(msgspec.Struct, array_like=True):
    """The head of a key group's log: the grouping states, and the chunks that hold their rows, oldest first.

    `suppressing` holds the incarnations of the rules that have suppressed alerts; None in the head of an older release.
    """

    version: int = 0
    digest: int = 0
    newest_append_ms: int = at.NONE
    next_state_id: int = 0
    states: list[GroupingStateHead] = []
    chunks: list[ChunkInfo] = []
    suppressing: list[int] | None = None


_encode_head = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(Head).decode


class Journal:
    """One batch's access to a key group's state. `open` returns grouping states, `commit` makes them durable."""

    def __init__(
        self,
        schema: TransactionSchema,
        log: StateLog,
        view: KeyGroupView,
        progress: TaskProgress = UNREPORTED,
        longest_cooldown_ms: int = FOREVER_MS,
    ) -> None:
        self._schema = schema
        self._log = log
        self._view = view
        self._progress = progress
        self._longest_cooldown_ms = longest_cooldown_ms
        self._parts: list[ChunkPart] = []
        self._newest: dict[int, int] = {}
        self._marks: dict[int, list[Marks]] = {}
        encoded = log.head()
        self.head = Head(suppressing=[]) if encoded is None else _decode_head(encoded)
        # An older release may have had a schema with more fields, and rules that group by them.
        self.head.states = [info for info in self.head.states if set(info.fields) <= set(schema.names)]
        if not view.shows(self.head.version, self.head.digest):
            view.begin_change()
            self._restore()
        view.begin_change()

    def heads_of(self, fields: Grouping) -> list[GroupingStateHead]:
        """The states of the grouping, oldest epoch first."""
        return sorted((head for head in self.head.states if head.fields == fields), key=lambda head: head.epoch)

    def open(self, info: GroupingStateHead) -> GroupingState:
        """Open a grouping state of the head."""
        state = self._view.states.get(info.id)
        if state is None:
            state = GroupingState(self._schema, info.fields, self._view.arrays(info.id), self._longest_cooldown_ms)
            self._view.states[info.id] = state
        return state

    def create(self, fields: Grouping, incarnation: int, epoch: int, epoch_ms: int) -> GroupingStateHead:
        """Create an empty grouping state."""
        info = GroupingStateHead(self.head.next_state_id, fields, incarnation, epoch, epoch_ms)
        self.head.next_state_id += 1
        self.head.states.append(info)
        self._view.states[info.id] = self._new_state(info)
        return info

    def _new_state(self, info: GroupingStateHead) -> GroupingState:
        return GroupingState.create(self._schema, info.fields, self._view.arrays(info.id), self._longest_cooldown_ms)

    def remove(self, info: GroupingStateHead) -> None:
        """Remove a grouping state. Its rows leave the log when their chunks are merged or dropped."""
        self.head.states.remove(info)
        self._view.remove(info.id)

    def record(self, info: GroupingStateHead, rows: TransactionBatch, marks: Marks | None) -> None:
        """Record accepted rows, whose `offset` is their arrival number, and changed marks of a grouping state."""
        if not len(rows) and marks is None:
            return
        if len(rows):
            self._newest[info.id] = max(self._newest.get(info.id, at.NONE), newest_ms(rows))
        if marks is not None:
            self._marks.setdefault(info.id, []).append(marks)
        self._parts.append(ChunkPart(info.id, rows.pack(), None if marks is None else pack_marks(marks)))

    def commit(self, rules: frozenset[int]) -> None:
        """Add the batch to the log, clean up, and stamp the view. `rules`: incarnations of the rules in force."""
        head = self.head
        head.version += 1
        for info in head.states:
            header = self.open(info).header
            info.watermark_ms, info.bound_ms = int(header[at.H_WATERMARK]), int(header[at.H_BOUND])
            info.first_ms, info.next_sequence = int(header[at.H_FIRST]), int(header[at.H_SEQ])
        horizons = {info.id: self.open(info).horizon for info in head.states}
        mark_rules = self._mark_rules(rules)
        head.chunks = merge_aged(self._log, drop_expired(self._log, head.chunks, horizons), horizons, mark_rules)
        chunk = encode_parts(self._parts)
        if self._parts:
            self._log.put_chunk(head.version, chunk)
            times = marks_ms_of(self._marks, mark_rules)
            head.chunks.append(ChunkInfo(head.version, 0, self._newest, bool(self._marks), times))
        head.digest = _digest(head.digest, head.version, chunk)
        self._log.put_head(_encode_head(head))
        self._view.commit(head.version, head.digest)

    def _mark_rules(self, rules: frozenset[int]) -> MarkRules:
        """The rules in force, and those among them that have suppressed alerts in this batch or before."""
        head = self.head
        if head.suppressing is not None:
            rows = [each.rows for marks in self._marks.values() for each in marks]
            now = {int(rule) for each in rows for rule in each[each[:, at.M_SUPPRESSED] > 0, at.M_RULE]}
            head.suppressing = sorted(now.union(head.suppressing) & rules)
        return MarkRules(rules, None if head.suppressing is None else frozenset(head.suppressing))

    def _restore(self) -> None:
        """Rebuild every grouping state from the chunks."""
        self._view.clear()
        rows: dict[int, list[TransactionBatch]] = {info.id: [] for info in self.head.states}
        marks: dict[int, list[Marks]] = {info.id: [] for info in self.head.states}
        for chunk in self.head.chunks:
            for part in decode_parts(self._log.chunk(chunk.id)):
                if part.state_id in rows:
                    unpacked = TransactionBatch.unpack(part.rows)
                    rows[part.state_id].append(unpacked)
                    self._progress.restored(len(unpacked))
                    if part.marks is not None:
                        marks[part.state_id].append(unpack_marks(part.marks))
        for info in self.head.states:
            self._restore_state(info, rows[info.id], marks[info.id])

    def _restore_state(self, info: GroupingStateHead, rows: Sequence[TransactionBatch], marks: Sequence[Marks]) -> None:
        state = self._new_state(info)
        self._view.states[info.id] = state
        state.header[at.H_WATERMARK], state.header[at.H_BOUND] = info.watermark_ms, info.bound_ms
        state.header[at.H_FIRST], state.header[at.H_SEQ] = info.first_ms, info.next_sequence
        live = live_rows(rows, info.bound_ms)
        if len(live) or marks:
            state.load(live, live.offset, marks)


def _digest(before: int, version: int, chunk: bytes) -> int:
    """A 63-bit digest of the log up to this version: a chain over the chunks' checksums."""
    text = struct.pack("<QQQI", before, version, len(chunk), zlib.crc32(chunk))
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1

"""Keeps a key group's view consistent with its state log.

The state log is the source of truth, and the view is a cache of it. Each batch adds its rows as chunks and replaces
the head. The head's version and digest identify the log's content, because the digest covers the head before it and the
head has the digests of all chunks. The journal refreshes a view that has another version or digest (see `refresh`).

A batch that changes nothing leaves the log as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.chunk_ages import age_chunks
from fraud_rules.engine.state.chunks import (
    MAX_CHUNK_BYTES,
    ChunkInfo,
    ChunkPart,
    MarkRules,
    marks_ms_of,
    newest_ms,
    pack_marks,
    put_chunk,
)
from fraud_rules.engine.state.grouping_state import GroupingState, Marks
from fraud_rules.engine.state.head import GroupingStateHead, Head, decode_head, encode_head
from fraud_rules.engine.state.refresh import MeasuresOf, ViewStates, no_measures, refresh_view
from fraud_rules.engine.state.series_sums import U_TIME, StepSums, SumPolicy, pieces_of, sources_of
from fraud_rules.engine.state.spent import Horizon
from fraud_rules.engine.state.store import KeyGroupView, KnownHead
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.window import layout as at
from fraud_rules.model.ruleset import Grouping, RuleInForce
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

NUMBERS = [at.H_WATERMARK, at.H_BOUND, at.H_FIRST, at.H_SEQ]
"""The numbers of a header that the rows do not determine."""

LongRulesOf = Callable[[Grouping], Sequence[RuleInForce]]

_LEAST_ROW_BYTES = 36
_MARKS_PER_PART = 16_384
_ROWS_PER_SMALL_PART = 1_024
"""A part has rows and marks only if both together are not more. Such a part fits into a chunk, and each further part
costs a small batch time."""


class _RecordedPart(NamedTuple):
    """A part of this batch's chunks. `newest_ms` is None without rows, `marks` without marks, `sums_ms` without
    sums."""

    part: ChunkPart
    newest_ms: int | None
    marks: Marks | None
    appended_ms: int = at.NONE
    sums_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.part.rows) + len(self.part.marks or b"") + len(self.part.sums or b"")


class PreparedChunk(NamedTuple):
    """A chunk without marks that the durable store has already: its name, the file with its content, the size of the
    content, and the newest event time of its rows by the id of the grouping state."""

    name: str
    file: Path
    size_bytes: int
    newest_ms: dict[int, int]


class Journal:
    """One batch's access to a key group's state. `open` returns grouping states. `commit` makes their changes
    durable. `refreshed` says what the view lacked."""

    def __init__(
        self,
        schema: TransactionSchema,
        log: StateLog,
        view: KeyGroupView,
        progress: TaskProgress = UNREPORTED,
        longest_cooldown_ms: int = at.FOREVER_MS,
        key_group: int = 0,
        measures_of: MeasuresOf = no_measures,
    ) -> None:
        self._key_group = key_group
        self._log = log
        self._view = view
        self._states = ViewStates(schema, view, longest_cooldown_ms, measures_of)
        self._parts: list[_RecordedPart] = []
        self._prepared: list[PreparedChunk] = []
        self._discards = False
        encoded = log.head()
        # The batch changes the known head, so a batch that fails must not leave it.
        known, view.known_head = view.known_head, None
        if known is None or known.encoded != encoded:
            known = _known(encoded, schema)
        self.head, self._encoded, self._ages = known
        self.refreshed = refresh_view(self._states, self.head, log, progress)

    def heads_of(self, fields: Grouping) -> list[GroupingStateHead]:
        """The heads of the grouping's states, oldest epoch first."""
        return sorted((head for head in self.head.states if head.fields == fields), key=lambda head: head.epoch)

    def open(self, state_head: GroupingStateHead) -> GroupingState:
        """Return the grouping state of a head, opened from the view on first use."""
        return self._states.open(state_head)

    def create(self, fields: Grouping, incarnation: int, epoch: int, epoch_ms: int) -> GroupingStateHead:
        """Create an empty grouping state, and return its head."""
        state_head = GroupingStateHead(self.head.next_state_id, fields, incarnation, epoch, epoch_ms)
        self.head.next_state_id += 1
        self.head.states.append(state_head)
        self._states.create(state_head)
        return state_head

    def recreate(self, state_head: GroupingStateHead) -> GroupingStateHead:
        """Replace a grouping state by an empty one with another id and the same numbers, and return its head."""
        numbers = self.open(state_head).header[NUMBERS]
        self.remove(state_head)
        fresh = self.create(state_head.fields, state_head.incarnation, state_head.epoch, state_head.epoch_ms)
        self.open(fresh).header[NUMBERS] = numbers
        return fresh

    def adopt(self, like: GroupingStateHead, state_id: int, arrays: Path) -> GroupingStateHead | None:
        """Add a grouping state with the place of another one, whose arrays another task has built in the folder
        `arrays`, and return its head. None if the view is not in files, or if the folder is gone."""
        if not self._view.adopt(state_id, arrays):
            return None
        fresh = GroupingStateHead(state_id, like.fields, like.incarnation, like.epoch, like.epoch_ms)
        self.head.states.append(fresh)
        return fresh

    def remove(self, state_head: GroupingStateHead) -> None:
        """Remove a grouping state. Its rows leave the log when their chunks are merged or dropped."""
        self.head.states.remove(state_head)
        self._view.remove(state_head.id)

    def record(self, state_head: GroupingStateHead, rows: TransactionBatch, marks: Marks | None) -> None:
        """Record the accepted rows and the changed marks of a grouping state. The `offset` of a row is its arrival
        number."""
        pieces = list(pack_rows(rows))
        if marks is not None and len(pieces) == 1 and len(rows) + len(marks.rows) <= _ROWS_PER_SMALL_PART:
            part = ChunkPart(state_head.id, pieces[0].packed, pack_marks(marks))
            self._parts.append(_RecordedPart(part, pieces[0].newest_ms, marks, pieces[0].appended_ms))
            return
        for piece in pieces:
            part = ChunkPart(state_head.id, piece.packed, None)
            self._parts.append(_RecordedPart(part, piece.newest_ms, None, piece.appended_ms))
        if marks is not None:
            empty = rows.take(np.arange(0)).pack()
            for portion, packed in _pack_portions(marks):
                part = ChunkPart(state_head.id, empty, packed)
                self._parts.append(_RecordedPart(part, None, portion))

    def record_sums(self, state_head: GroupingStateHead, sums: StepSums) -> None:
        """Record the sums of a grouping state without chunks."""
        empty = TransactionBatch.concat([]).pack()
        for piece in pieces_of(sums):
            part = ChunkPart(state_head.id, empty, None, piece.pack())
            newest_ms = int(piece.numbers[:, U_TIME].max())
            self._parts.append(_RecordedPart(part, None, None, sums_ms=newest_ms))

    def record_prepared(self, chunk: PreparedChunk) -> None:
        """Record the rows of a prepared chunk. They precede the other rows of the batch."""
        self._prepared.append(chunk)

    def discard_prepared(self, chunk: PreparedChunk) -> None:
        """Delete a prepared chunk that the batch does not use."""
        self._log.delete_chunk(chunk.name)
        self._discards = True

    def commit(self, rules: frozenset[int], long_rules: LongRulesOf, settled_ms: int) -> None:
        """Add the batch's chunks to the state log, delete and merge old chunks, replace the head, and mark the view as
        valid.

        `rules` are the incarnations of the rules whose marks are kept. `long_rules` returns the rules with long windows
        of a grouping. Rows that were appended before `settled_ms` may become parts of sums.
        """
        head = self.head
        horizons: dict[int, Horizon] = {}
        policies: dict[int, SumPolicy] = {}
        for state_head in head.states:
            state = self.open(state_head)
            numbers = state.header[NUMBERS].tolist()
            state_head.watermark_ms, state_head.bound_ms, state_head.first_ms, state_head.next_number = numbers
            horizons[state_head.id] = state.horizon
            state_head.series = state.series
            if state_head.series:
                policies[state_head.id] = _policy(state_head, long_rules(state_head.fields), settled_ms)
        mark_rules = self._mark_rules(rules)
        ages = self._ages
        if ages is None or policies or ages.are_due(horizons, self._key_group):
            aged = age_chunks(self._log, head.chunks, horizons, mark_rules, self._key_group, policies, ages)
            head.chunks, ages = aged
        encoded = self._encoded
        if self._parts or self._discards or encode_head(head) != encoded:
            head.begin_version()
            added = [self._adopt_chunk(chunk) for chunk in self._prepared]
            added += [self._put_chunk(parts, mark_rules) for parts in _chunks_of(self._parts)]
            head.chunks += added
            for info in added:
                ages.add(info, horizons)
            encoded = head.seal()
            self._log.put_head(encoded, head.state_version)
        self._view.commit(*head.state_version)
        self._view.known_head = KnownHead(head, encoded, ages)

    def _adopt_chunk(self, chunk: PreparedChunk) -> ChunkInfo:
        self._log.adopt_chunk(chunk.name, chunk.file)
        newest, version = chunk.newest_ms, self.head.version
        return ChunkInfo(chunk.name, 0, chunk.size_bytes, newest, has_marks=False, marks_ms={}, added_at=version)

    def _put_chunk(self, parts: Sequence[_RecordedPart], mark_rules: MarkRules) -> ChunkInfo:
        newest: dict[int, int] = {}
        marks: dict[int, list[Marks]] = {}
        sums_ms: dict[int, int] = {}
        for each in parts:
            state_id = each.part.state_id
            if each.sums_ms is not None:
                sums_ms[state_id] = max(sums_ms.get(state_id, at.NONE), each.sums_ms)
            if each.newest_ms is not None:
                newest[state_id] = max(newest.get(state_id, at.NONE), each.newest_ms)
            if each.marks is not None:
                marks.setdefault(state_id, []).append(each.marks)
        marks_ms = marks_ms_of(marks, mark_rules)
        appended_ms = max(each.appended_ms for each in parts)
        content = [each.part for each in parts]
        return put_chunk(self._log, self.head.version, 0, content, newest, marks_ms, sums_ms, appended_ms)

    def _mark_rules(self, rules: frozenset[int]) -> MarkRules:
        """The rules whose marks are kept, and those among them that have suppressed alerts in this batch or before."""
        head = self.head
        if head.suppressing is not None:
            rows = [each.marks.rows for each in self._parts if each.marks is not None]
            new = {int(rule) for each in rows for rule in each[each[:, at.M_SUPPRESSED] > 0, at.M_RULE]}
            head.suppressing = sorted(new.union(head.suppressing) & rules)
        return MarkRules(rules, None if head.suppressing is None else frozenset(head.suppressing))


def _policy(state_head: GroupingStateHead, long_rules: Sequence[RuleInForce], settled_ms: int) -> SumPolicy:
    """The policy of a grouping state with series."""
    in_force = {each.series for each in long_rules}
    known = [each for each in long_rules if any(series.version == each.series for series in state_head.series)]
    all_in_force = all(each.version in in_force for each in state_head.series)
    return SumPolicy(
        state_head.fields,
        state_head.oldest_ms,
        settled_ms,
        state_head.series,
        sources_of(known) if all_in_force else None,
    )


def _known(encoded: bytes | None, schema: TransactionSchema) -> KnownHead:
    """Decode a head; None for an empty log."""
    head = Head(suppressing=[]) if encoded is None else decode_head(encoded)
    encoded = encoded or encode_head(head)
    # The schema of an older release can have more fields. Groupings by such fields have ended.
    head.states = [state for state in head.states if set(state.fields) <= set(schema.of_rows(state.fields).names)]
    return KnownHead(head, encoded, None)


def with_arrival_numbers(rows: TransactionBatch, numbers: NDArray[np.int64]) -> TransactionBatch:
    """The rows as the state log stores them: with their arrival numbers as `offset`."""
    return TransactionBatch(rows.append_ms, rows.partition, numbers, rows.columns)


class PackedRows(NamedTuple):
    """Packed rows that fit into a chunk, their newest event time, and their newest append time."""

    packed: bytes
    newest_ms: int
    appended_ms: int


def pack_rows(rows: TransactionBatch) -> Iterator[PackedRows]:
    """Pack the rows in pieces that fit into a chunk. A single row can be larger."""
    if not len(rows):
        return
    if len(rows) == 1 or len(rows) * _LEAST_ROW_BYTES <= MAX_CHUNK_BYTES:
        packed = rows.pack()
        if len(rows) == 1 or len(packed) <= MAX_CHUNK_BYTES:
            yield PackedRows(packed, newest_ms(rows), int(rows.append_ms.max()))
            return
    half = len(rows) // 2
    yield from pack_rows(rows.take(np.arange(half)))
    yield from pack_rows(rows.take(np.arange(half, len(rows))))


def _pack_portions(marks: Marks) -> Iterator[tuple[Marks, bytes]]:
    """The marks in portions that fit into a chunk, each with its packed form. A single mark can be larger."""
    count = len(marks.rows)
    if count <= _MARKS_PER_PART:
        packed = pack_marks(marks)
        if count <= 1 or len(packed) <= MAX_CHUNK_BYTES:
            yield marks, packed
            return
    for chosen in (np.arange(count // 2), np.arange(count // 2, count)):
        yield from _pack_portions(Marks(marks.rows[chosen], tuple(key.take(chosen) for key in marks.keys)))


def _chunks_of(parts: Sequence[_RecordedPart]) -> Iterator[list[_RecordedPart]]:
    """The parts in order, in groups that fit into a chunk."""
    group: list[_RecordedPart] = []
    size_bytes = 0
    for part in parts:
        if group and size_bytes + part.size_bytes > MAX_CHUNK_BYTES:
            yield group
            group, size_bytes = [], 0
        group.append(part)
        size_bytes += part.size_bytes
    if group:
        yield group

"""Merges the chunks of a key group's state log as they age, and deletes those without live content.

Chunks merge as in a log-structured merge tree, so that a restore reads few chunks: `MERGE_WIDTH` chunks of one level
become one chunk of the next level. A merge drops the rows below the retention bound, and spent marks. No chunk grows
beyond `MAX_CHUNK_BYTES`, so that the cost of a merge and the size of a record in Kafka stay bounded whatever the length
of the windows. A merge of many grouping states takes several small batches, a few states in each, so that no batch
waits for all of them.

Several chunks can have a mark of the same rule and key, and only the latest mark counts. If a merge drops the latest
mark, a mark in an older chunk counts again. This is harmless if the older mark is spent too. The older mark can be
unspent only if it counts suppressed alerts. So a merge drops the spent marks of a rule that has suppressed alerts only
if no older chunk has marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import msgspec
import numpy as np

from fraud_rules.engine.state.chunks import (
    MAX_CHUNK_BYTES,
    ChunkInfo,
    ChunkPart,
    MarkRules,
    decode_parts,
    marks_ms_of,
    newest_ms,
    pack_marks,
    put_chunk,
    rows_from,
    unpack_all_marks,
)
from fraud_rules.engine.state.grouping_state import Marks
from fraud_rules.engine.state.series_sums import NO_SUMS, U_TIME, Folded, StepSums, SumPolicy
from fraud_rules.engine.state.spent import Horizon, find_spent
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.window.layout import M_RULE, NONE
from fraud_rules.model.transaction import Column, TransactionBatch

MERGE_WIDTH = 16
"""The number of chunks of one level that become one chunk of the next level."""

_STATES_AT_ONCE: Final = 4
"""The number of grouping states that a small batch merges."""
_MERGE_BATCHES: Final = MERGE_WIDTH // 2
"""The most batches that a merge takes. Each of them can add a chunk, so a merge ends before the next one is due."""

_NO_POLICIES: Final[Mapping[int, SumPolicy]] = {}


class _Keeping(NamedTuple):
    """What a merge keeps, by the id of the grouping state: horizons, policies of sums, and the rules of marks."""

    horizons: Mapping[int, Horizon]
    rules: MarkRules
    policies: Mapping[int, SumPolicy]

    def fold(self, state_id: int, rows: TransactionBatch, parts: Sequence[ChunkPart]) -> Folded:
        """The rows and the sums that stay of a grouping state, whose parts have these rows."""
        policy, bound_ms = self.policies.get(state_id), self.horizons[state_id].bound_ms
        if policy is None:
            return Folded(rows_from(rows, bound_ms), NO_SUMS, NONE)
        sums = [StepSums.unpack(part.sums) for part in parts if part.sums is not None]
        folded = policy.fold(rows_from(rows, policy.oldest_ms), bound_ms, sums)
        return folded._replace(end=max([folded.end, *(part.folded_end for part in parts)]))


class Merge:
    """A merge of some consecutive `chunks`, the `run`, into one chunk of a level, a few grouping states at a time.

    The log keeps the run until the merge has ended.
    """

    def __init__(
        self, log: StateLog, chunks: Sequence[ChunkInfo], run: Sequence[ChunkInfo], level: int, keeping: _Keeping
    ) -> None:
        self._run = run
        self._level = level
        self._first_keeping = keeping
        self._has_older_marks = any(info.has_marks for info in chunks[: self._place_in(chunks)])
        self._parts: dict[int, list[ChunkPart]] = {}
        for info in run:
            for part in decode_parts(log.chunk(info.name)):
                self._parts.setdefault(part.state_id, []).append(part)
        self._waiting = sorted(keeping.horizons, reverse=True)
        self._merged: list[ChunkPart] = []
        self._newest: dict[int, int] = {}
        self._marks: dict[int, list[Marks]] = {}
        self._sums_ms: dict[int, int] = {}
        self._appended_ms = NONE

    def goes_on(self, chunks: Sequence[ChunkInfo], keeping: _Keeping) -> bool:
        """Whether these chunks still have the run, and the merge would keep marks of the same rules and states."""
        first, names = self._place_in(chunks), [info.name for info in self._run]
        begun = self._first_keeping
        is_same = keeping.rules == begun.rules and keeping.horizons.keys() == begun.horizons.keys()
        return is_same and [info.name for info in chunks[first : first + len(names)]] == names

    def advance(self, keeping: _Keeping, most_states: int) -> bool:
        """Merge the next grouping states. Returns whether all are merged."""
        for state_id in reversed(self._waiting[-most_states:]):
            self._add(state_id, self._parts.pop(state_id, []), keeping)
        del self._waiting[-most_states:]
        return not self._waiting

    def _add(self, state_id: int, parts: Sequence[ChunkPart], keeping: _Keeping) -> None:
        all_rows = TransactionBatch.unpack_all([part.rows for part in parts])
        rows, sums, folded_end = keeping.fold(state_id, all_rows, parts)
        marks = _merged_marks([part.marks for part in parts if part.marks is not None], keeping.rules.kept)
        if marks is not None:
            horizon, older = keeping.horizons[state_id], self._has_older_marks
            marks = _drop_spent(marks, horizon, keeping.rules, has_older_marks=older)
        if marks is not None:
            self._marks[state_id] = [marks]
        if len(rows):
            self._newest[state_id] = newest_ms(rows)
            self._appended_ms = max(self._appended_ms, int(rows.append_ms.max()))
        if len(sums):
            self._sums_ms[state_id] = int(sums.numbers[:, U_TIME].max())
        if len(rows) or marks is not None or len(sums):
            packed = None if marks is None else pack_marks(marks), sums.pack() if len(sums) else None
            self._merged.append(ChunkPart(state_id, rows.pack(), *packed, folded_end))

    def replace(self, log: StateLog, chunks: list[ChunkInfo]) -> None:
        """Replace the run by its merged content, if any row, mark or sum is live."""
        first = self._place_in(chunks)
        for info in self._run:
            log.delete_chunk(info.name)
        replacement = []
        if self._merged:
            marks_ms, number = marks_ms_of(self._marks, self._first_keeping.rules), self._run[0].number
            replacement.append(
                put_chunk(
                    log, number, self._level, self._merged, self._newest, marks_ms, self._sums_ms, self._appended_ms
                )
            )
        chunks[first : first + len(self._run)] = replacement

    def _place_in(self, chunks: Sequence[ChunkInfo]) -> int:
        """The position of the run's first chunk; after the last chunk if it is not among them."""
        return next((i for i, info in enumerate(chunks) if info.name == self._run[0].name), len(chunks))


class ChunkAges:
    """Finds the batches in which `age_chunks` has nothing to do, without a scan of all chunks.

    It knows for each chunk a reason to keep it: the newest rows or marks of one grouping state, which stay live until
    the horizon of this state has passed them. `merge` is the merge that the next batch continues, if one has begun.
    """

    def __init__(
        self, chunks: Iterable[ChunkInfo], horizons: Mapping[int, Horizon], merge: Merge | None = None
    ) -> None:
        """`chunks` are those after `age_chunks` with these horizons."""
        self.merge = merge
        self._rows_ms: dict[int, int] = {}
        self._marks_ms: list[tuple[int, tuple[int, int]]] = []
        self._levels: Counter[int] = Counter()
        self._is_stale = False
        for info in chunks:
            self.add(info, horizons)

    def add(self, info: ChunkInfo, horizons: Mapping[int, Horizon]) -> None:
        """Add a chunk."""
        self._levels[info.level] += 1
        for state_id, newest in info.newest_ms.items():
            if state_id in horizons and newest >= horizons[state_id].bound_ms:
                self._rows_ms[state_id] = min(newest, self._rows_ms.get(state_id, newest))
                return
        kept = () if info.marks_ms is None else info.marks_ms.items()
        unspent = next((each for each in kept if each[0] in horizons and not horizons[each[0]].is_past(*each[1])), None)
        if unspent is not None:
            self._marks_ms.append(unspent)
        # Without rows, a chunk whose marks have no time stays until a merge.
        if info.newest_ms or (unspent is None and not (info.has_marks and info.marks_ms is None)):
            self._is_stale = True

    def are_due(self, horizons: Mapping[int, Horizon], key_group: int) -> bool:
        """Whether `age_chunks` can change the chunks."""
        if self._is_stale or any(count >= _merged_from(level, key_group) for level, count in self._levels.items()):
            return True
        for state_id, newest in self._rows_ms.items():
            if state_id not in horizons or horizons[state_id].bound_ms > newest:
                return True
        return any(state_id not in horizons or horizons[state_id].is_past(*ms) for state_id, ms in self._marks_ms)


def age_chunks(
    log: StateLog,
    chunks: Sequence[ChunkInfo],
    horizons: Mapping[int, Horizon],
    rules: MarkRules,
    key_group: int,
    policies: Mapping[int, SumPolicy] = _NO_POLICIES,
    known: ChunkAges | None = None,
) -> tuple[list[ChunkInfo], ChunkAges]:
    """Delete the chunks without live rows, marks and sums, then merge some of the others. Returns the chunks that are
    left, and their ages.

    `horizons` has the horizon of each grouping state by its id, and `policies` those of states with sums. A removed
    grouping state has no horizon. Its rows, marks and sums are not live. `known` has the ages after the previous batch,
    if this process had it: then it is likely to have the next one, too, and a merge may wait for it.
    """
    bounds_ms = {state_id: horizon.bound_ms for state_id, horizon in horizons.items()}
    kept: list[ChunkInfo] = []
    stale: list[ChunkInfo] = []
    added = _added(chunks)
    for info in chunks:
        if _has_live_rows(info, bounds_ms):
            kept.append(info)
            continue
        counts = _counts_in_sums(info, policies)
        if not counts and info.marks_are_spent(horizons):
            log.delete_chunk(info.name)
            continue
        kept.append(info)
        if len(stale) <= added and info.newest_ms and (not counts or _may_fold(info, policies)):
            stale.append(info)
    keeping = _Keeping(horizons, rules, policies)
    for info in stale:
        emptied = Merge(log, kept, [info], info.level, keeping)
        emptied.advance(keeping, len(horizons))
        emptied.replace(log, kept)
    # A large batch, and rows that become parts of sums, leave no part of a merge to the next batch.
    is_spread = known is not None and added == 1 and not policies
    most_states = max(_STATES_AT_ONCE, -(-len(horizons) // _MERGE_BATCHES)) if is_spread else len(horizons)
    merge = None if known is None else known.merge
    if merge is not None and merge.goes_on(kept, keeping):
        merge = _advanced(log, kept, merge, keeping, most_states)
    else:
        merge = _merge_aged(log, kept, keeping, key_group, added, most_states)
    return kept, ChunkAges(kept, horizons, merge)


def _added(chunks: Sequence[ChunkInfo]) -> int:
    """The number of chunks that the last batch added. A batch adds several if its rows need more than one. As many are
    merged, and one more loses its expired rows, so that the chunks that wait do not become more and more."""
    return sum(1 for _ in takewhile(lambda info: info.number == chunks[-1].number, reversed(chunks)))


def _counts_in_sums(info: ChunkInfo, policies: Mapping[int, SumPolicy]) -> bool:
    """Whether a row or a sum of the chunk still counts in a series."""
    newest = (*info.newest_ms.items(), *info.sums_ms.items())
    return any(time_ms >= policies[state_id].oldest_ms for state_id, time_ms in newest if state_id in policies)


def _may_fold(info: ChunkInfo, policies: Mapping[int, SumPolicy]) -> bool:
    """Whether all rows of the chunk become parts of sums or are dropped."""
    concerned = [policies[state_id] for state_id in info.newest_ms if state_id in policies]
    return all(each.sources is not None and info.appended_ms < each.settled_ms for each in concerned)


def _has_live_rows(info: ChunkInfo, bounds_ms: Mapping[int, int]) -> bool:
    """Whether a row of the chunk is at or after the retention bound of its grouping state."""
    return any(newest >= bounds_ms[state_id] for state_id, newest in info.newest_ms.items() if state_id in bounds_ms)


def _merge_aged(
    log: StateLog, chunks: list[ChunkInfo], keeping: _Keeping, key_group: int, most_merges: int, most_states: int
) -> Merge | None:
    """Merge the oldest chunks of the lowest level that has twice MERGE_WIDTH chunks. Returns a merge that has not
    ended.

    A call merges on one level only, so that the merges of several levels do not fall on the same batch. A large chunk
    changes its level without a merge, on any level.
    """
    merges, level = 0, 0
    while not merges and level <= max([info.level for info in chunks], default=0):
        while len(of_level := [info for info in chunks if info.level == level]) >= _merged_from(level, key_group):
            run = _mergeable(of_level)
            if len(run) == 1:  # a large chunk
                chunks[chunks.index(run[0])] = msgspec.structs.replace(run[0], level=level + 1)
                continue
            merges += 1
            if merges > most_merges:
                return None
            merge = _advanced(log, chunks, Merge(log, chunks, run, level + 1, keeping), keeping, most_states)
            if merge is not None:
                return merge
        level += 1
    return None


def _advanced(
    log: StateLog, chunks: list[ChunkInfo], merge: Merge, keeping: _Keeping, most_states: int
) -> Merge | None:
    """Advance a merge. If it has ended, replace its chunks and return None."""
    if not merge.advance(keeping, most_states):
        return merge
    merge.replace(log, chunks)
    return None


def _merged_from(level: int, key_group: int) -> int:
    """The number of chunks of a level from which some of them merge.

    Each batch adds one chunk to most key groups. So the first merge of a key group waits for some more chunks, as many
    as its number says, and one batch merges a few key groups instead of all.
    """
    return 2 * MERGE_WIDTH + (0 if level else key_group % MERGE_WIDTH)


def _mergeable(run: Sequence[ChunkInfo]) -> Sequence[ChunkInfo]:
    """The oldest chunks of a level that fit into one chunk: one at least, and at most MERGE_WIDTH."""
    size_bytes = 0
    for count, info in enumerate(run[:MERGE_WIDTH]):
        size_bytes += info.size_bytes
        if count and size_bytes > MAX_CHUNK_BYTES:
            return run[:count]
    return run[:MERGE_WIDTH]


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


def _merged_marks(blobs: Sequence[bytes], rules: frozenset[int]) -> Marks | None:
    """The latest mark of each rule and key, for the rules whose marks are kept."""
    if not blobs:
        return None
    marks = unpack_all_marks(blobs)
    keys = zip(*[_plain_values(column) for column in marks.keys], strict=True) if marks.keys else [()] * len(marks.rows)
    rule_of = marks.rows[:, M_RULE].tolist()
    latest = {(rule, key): i for i, (rule, key) in enumerate(zip(rule_of, keys, strict=True)) if rule in rules}
    if not latest:
        return None
    chosen = np.array(sorted(latest.values()), dtype=np.int64)
    return Marks(marks.rows[chosen], tuple(key.take(chosen) for key in marks.keys))


def _plain_values(column: Column) -> list[object]:
    values = column.values.tolist()
    return values if column.dictionary is None else [column.dictionary[code] for code in values]

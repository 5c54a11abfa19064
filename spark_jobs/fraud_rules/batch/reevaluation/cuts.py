"""Finds the batch that evaluated a transaction, and the end of that batch's rule log.

A detector writes 20 batches a second, so their ends are packed: the differences of consecutive batches fit few bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.model.log_entry import with_rejections
from fraud_rules.model.ruleset import Grouping, GroupingInForce, LogEntry, RuleTimeline, grouping_to_warm
from fraud_rules.model.transaction import TransactionBatch

Ints = NDArray[np.int64]
_BLOCK: Final = 16_384
_UNPACKED: Final = 8
"""How many blocks a process keeps unpacked, of 128 KiB for each partition."""


@dataclass(frozen=True, slots=True)
class CutWarmUp:
    """A warm-up whose history batch number `batch` added: the version of its rule record, the append time of that
    batch's progress record, and the offsets after the last transactions that its job read, by partition.
    """

    version: int
    batch: int
    at_ms: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """The ends of up to `_BLOCK` consecutive batches. `before` has the end before the first one, by partition; `packed`
    has the differences of consecutive ends, compressed, by partition."""

    batches: int
    before: Mapping[int, int]
    kind: str
    packed: bytes

    @classmethod
    def of(cls, before: Mapping[int, int], ends: Sequence[Mapping[int, int]]) -> tuple[_Block, dict[int, int]]:
        """Pack the ends of some batches. Also returns the ends after the last one."""
        partitions = sorted(before.keys() | {partition for each in ends for partition in each})
        steps = np.zeros((len(partitions), len(ends)), np.int64)
        after: dict[int, int] = {}
        for row, partition in enumerate(partitions):
            start = before.get(partition, 0)
            reached = np.maximum.accumulate(np.array([start, *(each.get(partition, 0) for each in ends)], np.int64))
            steps[row], after[partition] = np.diff(reached), int(reached[-1])
        kind = np.min_scalar_type(int(steps.max(initial=0)))
        packed: bytes = pa.compress(steps.astype(kind).tobytes(), codec="zstd", asbytes=True)
        return cls(len(ends), {each: before.get(each, 0) for each in partitions}, kind.str, packed), after


@lru_cache(maxsize=_UNPACKED)
def _unpacked(block: _Block) -> Mapping[int, Ints]:
    """The ends int64[batches] of a block, by partition."""
    kind, rows = np.dtype(block.kind), len(block.before)
    size = rows * block.batches * kind.itemsize
    steps = np.frombuffer(pa.decompress(block.packed, size, codec="zstd", asbytes=True), kind)
    table = np.cumsum(steps.reshape(rows, block.batches), axis=1, dtype=np.int64)
    return {partition: start + table[row] for row, (partition, start) in enumerate(block.before.items())}


@dataclass(frozen=True, slots=True)
class Cuts:
    """The n batches of a detector, in order.

    `blocks` has the offset after the last read transaction of each batch, ascending by partition; `firsts` int64[k] is
    the number of each block's first batch, and `lasts` int64[k] the end after each block, by partition. The ends of the
    rule log change rarely: `rules_ends` int64[m] is that of the batches from number `changes` int64[m] on. `rejected`:
    the versions that the detector rejected, see `Pin`. `warm_ups` has those that the batches added, in order.
    `topic_began_ms` is the append time of the first batch if the topic of transactions was created again before it.
    `time_zones` has the releases of the time zones that the batches name.
    """

    batches: int
    blocks: tuple[_Block, ...]
    firsts: Ints
    lasts: Mapping[int, Ints]
    changes: Ints
    rules_ends: Ints
    rejected: frozenset[int]
    warm_ups: tuple[CutWarmUp, ...] = ()
    topic_began_ms: int | None = None
    time_zones: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.batches

    def batch_of(self, rows: TransactionBatch) -> Ints:
        """The number of each row's batch, `len(self)` for a row that is not evaluated yet."""
        found = np.full(len(rows), len(self), dtype=np.int64)
        for partition, lasts in self.lasts.items():
            here = np.flatnonzero(rows.partition == partition)
            offsets = rows.offset[here]
            block_of = np.searchsorted(lasts, offsets, side="right")
            for number in np.unique(block_of[block_of < len(lasts)]).tolist():
                inside = block_of == number
                ends = _unpacked(self.blocks[number])[partition]
                found[here[inside]] = self.firsts[number] + np.searchsorted(ends, offsets[inside], side="right")
        return found

    def rules_changes(self, batches: Ints) -> Ints:
        """The position in `rules_ends` of each of these batches, m for the number `len(self)`."""
        found: Ints = np.searchsorted(self.changes, batches, side="right") - 1
        return np.where(batches < len(self), found, len(self.changes))


class CutsBuilder:
    """Builds the cuts of batches that are added in order."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lasts: list[dict[int, int]] = []
        self._open: list[Mapping[int, int]] = []
        self._changes: list[tuple[int, int]] = []
        self._rejected: frozenset[int] = frozenset()
        self._warm_ups: list[CutWarmUp] = []
        self._topic_began_ms: int | None = None
        self._time_zones: set[str] = set()

    @property
    def batches(self) -> int:
        """The number of batches so far."""
        return _BLOCK * len(self._blocks) + len(self._open)

    def add(self, ends: Mapping[int, int], rules_end: int, time_zones: str = "") -> None:
        """Add a batch. A batch that reads evaluated records again evaluates none."""
        self._time_zones.add(time_zones)
        if not self._changes or self._changes[-1][1] != rules_end:
            self._changes.append((self.batches, rules_end))
        self._open.append(ends)
        if len(self._open) == _BLOCK:
            self._close()

    def begin_topic(self, at_ms: int) -> None:
        """Drop the batches so far: the topic was created again, so their offsets are those of other transactions."""
        for each in (self._blocks, self._lasts, self._open, self._changes, self._warm_ups, self._time_zones):
            each.clear()
        self._topic_began_ms = at_ms

    def reject(self, versions: Iterable[int]) -> None:
        """Add versions that the detector rejected."""
        self._rejected |= frozenset(versions)

    def warm(self, version: int, at_ms: int, ends: Mapping[int, int]) -> None:
        """Add a warm-up that the last added batch has added."""
        self._warm_ups.append(CutWarmUp(version, self.batches - 1, at_ms, ends))

    def build(self) -> Cuts:
        """The cuts of the added batches."""
        batches = self.batches
        if self._open:
            self._close()
        partitions = sorted(self._lasts[-1]) if self._lasts else []
        return Cuts(
            batches,
            tuple(self._blocks),
            np.arange(len(self._blocks), dtype=np.int64) * _BLOCK,
            {each: np.array([lasts.get(each, 0) for lasts in self._lasts], np.int64) for each in partitions},
            np.array([number for number, _ in self._changes], np.int64),
            np.array([end for _, end in self._changes], np.int64),
            self._rejected,
            tuple(self._warm_ups),
            self._topic_began_ms,
            frozenset(self._time_zones),
        )

    def _close(self) -> None:
        block, after = _Block.of(self._lasts[-1] if self._lasts else {}, self._open)
        self._blocks.append(block)
        self._lasts.append(after)
        self._open.clear()


class PinnedTimeline(RuleTimeline):
    """The rule log of each row's own batch: up to the row's append time, and up to the batch's pin."""

    __slots__ = ("_cuts", "_incarnations", "_seen")

    def __init__(self, entries: Iterable[LogEntry], cuts: Cuts) -> None:
        super().__init__(mark_rejected(entries, cuts.rejected))
        versions = np.array([entry.version for entry in self.entries], dtype=np.int64)
        self._cuts = cuts
        self._seen = np.append(np.searchsorted(versions, cuts.rules_ends, side="left"), len(versions))
        self._incarnations = frozenset(versions.tolist())

    def entry_counts_of(self, rows: TransactionBatch) -> Ints:
        """See `RuleTimeline.entry_counts_of`."""
        seen: Ints = self._seen[self._cuts.rules_changes(self._cuts.batch_of(rows))]
        return np.minimum(self.entry_counts_at(rows.append_ms), seen)

    def grouping_to_warm(self, fields: Grouping, version: int) -> GroupingInForce | None:
        """See `RuleTimeline.grouping_to_warm`. The batch that added the history decides, not the end of the log."""
        batch = next(each.batch for each in self._cuts.warm_ups if each.version == version)
        change = self._cuts.rules_changes(np.array([batch]))[0]
        return grouping_to_warm(self.rule_set(int(self._seen[change])), fields, version)

    def incarnations_kept(self, since_ms: int) -> frozenset[int]:
        """All incarnations: in event time, rows for a rule that was deleted later may still come."""
        return self._incarnations


def mark_rejected(entries: Iterable[LogEntry], rejected: frozenset[int]) -> list[LogEntry]:
    """The entries, without the changes that the detector rejected."""
    return with_rejections(entries, dict.fromkeys(rejected, (Reason("state", "refused by the detector"),)))

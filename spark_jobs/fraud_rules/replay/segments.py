"""Joins recorded batches to segments, which a rebuild evaluates at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.conclusion import conclude, place_of
from fraud_rules.model.offset_ranges import OffsetRanges
from fraud_rules.model.output import AlertRecord, KeyGroupOutput, MarkUpdate
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import BatchWarmUp

MOST_RECORDS: Final = 400_000
"""The number of records from which a segment is complete. It bounds the memory of a rebuild."""

Ints = NDArray[np.int64]


class BatchEnd(NamedTuple):
    """A recorded batch: the end of the rule log that it read, and the offset after its last transaction by
    partition. `warm_ups` joined the state at the start of the batch."""

    rules_end: int
    ends: Mapping[int, int]
    warm_ups: tuple[BatchWarmUp, ...] = ()


@dataclass(frozen=True)
class Segment:
    """Consecutive recorded batches, which a rebuild evaluates at once.

    `starts` has the first offset by partition. `ends` int64[n] has the offset after the last record of each of the n
    batches, by partition. `rules_ends` int64[n] has the ends of the rule log that the batches read. A part of a segment
    is a run of batches that read the same rules. `warm_ups` joined the state at the start of the first batch.
    """

    starts: Mapping[int, int]
    ends: Mapping[int, Ints]
    rules_ends: Ints
    warm_ups: tuple[BatchWarmUp, ...] = ()

    @property
    def records(self) -> int:
        """The number of offsets, at least the number of transactions."""
        return sum(int(ends[-1]) - self.starts[partition] for partition, ends in self.ends.items())

    @property
    def ranges(self) -> OffsetRanges:
        """The offsets of the records."""
        return {partition: (self.starts[partition], int(ends[-1])) for partition, ends in self.ends.items()}

    @property
    def rules_end(self) -> int:
        """The end of the rule log that the last batch read."""
        return int(self.rules_ends[-1])

    @property
    def after(self) -> Segment:
        """A segment of one batch after this one, which has read nothing."""
        return Segment(
            {partition: int(ends[-1]) for partition, ends in self.ends.items()},
            {partition: ends[-1:] for partition, ends in self.ends.items()},
            self.rules_ends[-1:],
        )

    def conclude(self, outputs: Sequence[KeyGroupOutput], timeline: RuleTimeline) -> list[MarkUpdate]:
        """The marks that the rules that name rules have changed in all batches. `outputs` are those of all key groups,
        one or more of each, and `timeline` the rule log that the last batch read."""
        return conclude(outputs, timeline, self._order)[1]

    def _order(self, alert: AlertRecord) -> tuple[int, ...]:
        batch = np.searchsorted(self.ends[alert.partition], alert.offset, side="right")
        return int(batch), *place_of(alert)

    @cached_property
    def part_of(self) -> Ints:
        """The part of each batch: int64[n]."""
        return np.concatenate([[0], np.cumsum(np.diff(self.rules_ends) != 0)]).astype(np.int64)

    def rules_end_of(self, part: int) -> int:
        """The end of the rule log that the batches of a part read."""
        return int(self.rules_ends[np.searchsorted(self.part_of, part)])

    def batch_of(self, rows: TransactionBatch) -> Ints:
        """The position of each row's batch: int64[rows]."""
        found = np.zeros(len(rows), dtype=np.int64)
        for partition, ends in self.ends.items():
            mine = rows.partition == partition
            found[mine] = np.searchsorted(ends, rows.offset[mine], side="right")
        return found


def segments_of(
    batches: Iterable[BatchEnd], starts: Mapping[int, int], most_records: int = MOST_RECORDS
) -> Iterator[Segment]:
    """Join consecutive batches to segments. A batch is never split, because it accepts its rows by append time. A batch
    that a warm-up joins begins a segment.

    `starts` has the first offset of each partition. An end below the start counts as the start, because a batch may
    have read records that Kafka has removed.
    """
    starts = dict(starts)
    reached, joined, warm_ups = dict(starts), list[tuple[int, dict[int, int]]](), tuple[BatchWarmUp, ...]()
    for batch in batches:
        if batch.warm_ups:
            if joined:
                yield _segment(starts, joined, warm_ups)
            starts, joined, warm_ups = reached, [], batch.warm_ups
        ends = {partition: max(end, reached[partition]) for partition, end in batch.ends.items()}
        if ends.items() <= reached.items() and not batch.warm_ups:
            continue  # the batch has read no transaction
        reached = {**reached, **ends}
        joined.append((batch.rules_end, reached))
        if sum(reached.values()) - sum(starts.values()) >= most_records:
            yield _segment(starts, joined, warm_ups)
            starts, joined, warm_ups = reached, [], ()
    if joined:
        yield _segment(starts, joined, warm_ups)


def _segment(
    starts: Mapping[int, int], joined: Sequence[tuple[int, Mapping[int, int]]], warm_ups: tuple[BatchWarmUp, ...]
) -> Segment:
    ends = {partition: np.array([each[partition] for _, each in joined], dtype=np.int64) for partition in starts}
    return Segment(starts, ends, np.array([rules_end for rules_end, _ in joined], dtype=np.int64), warm_ups)

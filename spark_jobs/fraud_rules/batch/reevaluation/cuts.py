"""Finds the batch that evaluated a transaction, and the end of that batch's rule log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.model.ruleset import Grouping, GroupingInForce, LogEntry, RuleTimeline, grouping_to_warm
from fraud_rules.model.transaction import TransactionBatch

__all__ = ["CutWarmUp", "Cuts", "PinnedTimeline", "refused_entries"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CutWarmUp:
    """A warm-up whose history batch number `batch` added: the version of its rule record, the append time of that
    batch's progress record, and the offsets after the last transactions that its job read, by partition.
    """

    version: int
    batch: int
    at_ms: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cuts:
    """The n batches of a detector, in order.

    `ends` int64[n] by partition, ascending: the offset after the last read transaction. `rules_ends` int64[n]: the end
    of each batch's rule log. `refused`: the versions that were refused for the size of their state. `warm_ups` has
    those that the batches added, in order.
    """

    ends: Mapping[int, Ints]
    rules_ends: Ints
    refused: frozenset[int]
    warm_ups: tuple[CutWarmUp, ...] = ()

    @classmethod
    def of(cls, batches: Sequence[tuple[int, BatchProgress]], topic: str) -> Cuts:
        """Build from (append time, progress) records in log order. A batch that reads evaluated records again evaluates
        none.
        """
        cuts = cls.of_ends(
            [batch.ends_of(topic) for _, batch in batches],
            [batch.rules_end for _, batch in batches],
            (version for _, batch in batches for version in batch.refused_versions()),
        )
        warm_ups = (
            CutWarmUp(each.version, number, at_ms, {int(partition): end for partition, end in each.ends.items()})
            for number, (at_ms, batch) in enumerate(batches)
            for each in batch.warm_ups
        )
        return replace(cuts, warm_ups=tuple(warm_ups))

    @classmethod
    def of_ends(cls, ends: Sequence[Mapping[int, int]], rules_ends: Sequence[int], refused: Iterable[int] = ()) -> Cuts:
        """Build from end offsets by partition, and pins."""
        partitions = sorted({partition for each in ends for partition in each})
        columns = {
            partition: np.maximum.accumulate(np.array([each.get(partition, 0) for each in ends], np.int64))
            for partition in partitions
        }
        return cls(columns, np.array(rules_ends, np.int64), frozenset(refused))

    def __len__(self) -> int:
        return len(self.rules_ends)

    def batch_of(self, rows: TransactionBatch) -> Ints:
        """The number of each row's batch, `len(self)` for a row that is not evaluated yet."""
        found = np.full(len(rows), len(self), dtype=np.int64)
        for partition, ends in self.ends.items():
            here = rows.partition == partition
            found[here] = np.searchsorted(ends, rows.offset[here], side="right")
        return found

    def evaluated_ends(self) -> dict[int, int]:
        """The offset after the last evaluated transaction, by partition."""
        return {partition: int(ends[-1]) for partition, ends in self.ends.items() if len(ends)}


class PinnedTimeline(RuleTimeline):
    """The rule log of each row's own batch: up to the row's append time, and up to the batch's pin."""

    __slots__ = ("_cuts", "_incarnations", "_seen")

    def __init__(self, entries: Iterable[LogEntry], cuts: Cuts) -> None:
        super().__init__(refused_entries(entries, cuts.refused))
        versions = np.array([entry.version for entry in self.entries], dtype=np.int64)
        self._cuts = cuts
        self._seen = np.append(np.searchsorted(versions, cuts.rules_ends, side="left"), len(versions))
        self._incarnations = frozenset(versions.tolist())

    def entry_counts_of(self, rows: TransactionBatch) -> Ints:
        """See `RuleTimeline.entry_counts_of`."""
        seen: Ints = self._seen[self._cuts.batch_of(rows)]
        return np.minimum(self.entry_counts_at(rows.append_ms), seen)

    def grouping_to_warm(self, fields: Grouping, version: int) -> GroupingInForce | None:
        """See `RuleTimeline.grouping_to_warm`. The batch that added the history decides, not the end of the log."""
        batch = next(each.batch for each in self._cuts.warm_ups if each.version == version)
        return grouping_to_warm(self.rule_set(int(self._seen[batch])), fields, version)

    def incarnations_kept(self) -> frozenset[int]:
        """All incarnations: in event time, rows for a rule that was deleted later may still come."""
        return self._incarnations


def refused_entries(entries: Iterable[LogEntry], refused: frozenset[int]) -> list[LogEntry]:
    """The entries, without the changes that the detector refused."""
    because = (Reason("state", "refused by the detector"),)
    return [
        entry.refused(because) if entry.version in refused and entry.change is not None else entry for entry in entries
    ]

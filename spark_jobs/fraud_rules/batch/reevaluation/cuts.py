"""Finds the batch that evaluated a transaction, and the end of that batch's rule log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.transaction import TransactionBatch

__all__ = ["Cuts", "PinnedTimeline", "refused_entries"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cuts:
    """The n batches of a detector, in order.

    `ends` int64[n] by partition, ascending: the offset after the last read transaction. `rules_ends` int64[n]: the end
    of each batch's rule log. `refused`: the versions that were refused for the size of their state.
    """

    ends: Mapping[int, Ints]
    rules_ends: Ints
    refused: frozenset[int]

    @classmethod
    def of(cls, batches: Sequence[BatchProgress], topic: str) -> Cuts:
        """Build from progress records in log order. A batch that reads evaluated records again evaluates none."""
        return cls.of_ends(
            [batch.ends_of(topic) for batch in batches],
            [batch.rules_end for batch in batches],
            (version for batch in batches for version in batch.rules_refused),
        )

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

    def incarnations_kept(self) -> frozenset[int]:
        """All incarnations: in event time, rows for a rule that was deleted later may still come."""
        return self._incarnations


def refused_entries(entries: Iterable[LogEntry], refused: frozenset[int]) -> list[LogEntry]:
    """The entries, without the changes that the detector refused."""
    because = (Reason("state", "refused by the detector"),)
    return [
        entry.refused(because) if entry.version in refused and entry.change is not None else entry for entry in entries
    ]

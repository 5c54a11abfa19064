"""Which batch judged a transaction, and how much of the rule log that batch saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.logs.detector_status import Progress
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.transaction import TransactionBatch

__all__ = ["Cuts", "PinnedTimeline", "refused_entries"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cuts:
    """The batches of a detector in turn, n of them.

    `ends` int64[n] by partition, ascending: the offset after the last transaction read by then. `rules_ends` int64[n]:
    the rule log's end that the batch saw. `refused`: versions turned down for the state they ask for.
    """

    ends: Mapping[int, Ints]
    rules_ends: Ints
    refused: frozenset[int]

    @classmethod
    def of(cls, batches: Sequence[Progress], topic: str) -> Cuts:
        """From progress records in log order. A batch that reads again what was judged before judges nothing anew."""
        return cls.of_ends(
            [batch.ends_of(topic) for batch in batches],
            [batch.rules_end for batch in batches],
            (version for batch in batches for version in batch.rules_refused),
        )

    @classmethod
    def of_ends(cls, ends: Sequence[Mapping[int, int]], rules_ends: Sequence[int], refused: Iterable[int] = ()) -> Cuts:
        """The same from end offsets by partition and pins."""
        partitions = sorted({partition for each in ends for partition in each})
        columns = {
            partition: np.maximum.accumulate(np.array([each.get(partition, 0) for each in ends], np.int64))
            for partition in partitions
        }
        return cls(columns, np.array(rules_ends, np.int64), frozenset(refused))

    def __len__(self) -> int:
        return len(self.rules_ends)

    def batch_of(self, rows: TransactionBatch) -> Ints:
        """The number of each row's batch; `len(self)` for one not judged yet."""
        found = np.full(len(rows), len(self), dtype=np.int64)
        for partition, ends in self.ends.items():
            here = rows.partition == partition
            found[here] = np.searchsorted(ends, rows.offset[here], side="right")
        return found

    def judged_ends(self) -> dict[int, int]:
        """By partition the offset after the last transaction judged."""
        return {partition: int(ends[-1]) for partition, ends in self.ends.items() if len(ends)}


class PinnedTimeline(RuleTimeline):
    """The rule log as each row's own batch saw it: up to its append time, and up to the batch's pin."""

    __slots__ = ("_cuts", "_incarnations", "_seen")

    def __init__(self, entries: Iterable[LogEntry], cuts: Cuts) -> None:
        super().__init__(refused_entries(entries, cuts.refused))
        versions = np.array([entry.version for entry in self.entries], dtype=np.int64)
        self._cuts = cuts
        self._seen = np.append(np.searchsorted(versions, cuts.rules_ends, side="left"), len(versions))
        self._incarnations = frozenset(versions.tolist())

    def versions_of(self, rows: TransactionBatch) -> Ints:
        """See `RuleTimeline.versions_of`."""
        seen: Ints = self._seen[self._cuts.batch_of(rows)]
        return np.minimum(self.versions_at(rows.append_ms), seen)

    def incarnations_kept(self) -> frozenset[int]:
        """All there ever were: in event time, a rule that has been deleted since still has rows to come."""
        return self._incarnations


def refused_entries(entries: Iterable[LogEntry], refused: frozenset[int]) -> list[LogEntry]:
    """The entries, those turned down by the detector without their change."""
    because = (Reason("state", "refused by the detector"),)
    return [
        entry.refused(because) if entry.version in refused and entry.change is not None else entry for entry in entries
    ]

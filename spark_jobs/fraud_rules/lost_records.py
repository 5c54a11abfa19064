"""Records of a topic that the detector can never read, and where it goes on instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

__all__ = ["LossReason", "LostRecords", "Offsets", "moved"]

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition (as text)."""


class LossReason(StrEnum):
    """Why records cannot be read."""

    REMOVED = "removed"  # by retention, or by an administrator
    RECREATED = "recreated"  # the topic was deleted and created again
    TRUNCATED = "truncated"  # the log ends before what was read: an unclean leader election, or an older copy


class LostRecords(msgspec.Struct, frozen=True, rename="camel"):
    """A loss in one partition: the detector wanted to read on at offset `start` and goes on at `end`.

    `end` is None for a partition that no longer exists. `count` is None where Kafka cannot say how many records the
    loss covers; offsets of transaction markers count as records.
    """

    topic: str
    partition: int
    start: int = msgspec.field(name="from")
    end: int | None = msgspec.field(name="to")
    reason: LossReason
    count: int | None = None

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        if self.reason is LossReason.REMOVED:
            return f"{where} from {self.start} to {self.end}: {self.count} records were removed before they were read"
        if self.end is None:
            return f"{where} from {self.start}: the topic was created again without this partition"
        if self.reason is LossReason.RECREATED:
            return f"{where} from {self.start}: the topic was created again and begins at {self.end}"
        return f"{where} from {self.end} to {self.start}: the log is shorter than what was read of it"


def moved(offsets: Offsets, lost: Iterable[LostRecords]) -> dict[str, dict[str, int]]:
    """The offsets with those that point at lost records moved to where the detector goes on."""
    result = {topic: dict(partitions) for topic, partitions in offsets.items()}
    for each in lost:
        partitions, name = result.setdefault(each.topic, {}), str(each.partition)
        if each.end is None:
            partitions.pop(name, None)
        elif each.reason is LossReason.RECREATED:
            partitions[name] = each.end
        elif name in partitions:
            nearer = max if each.reason is LossReason.REMOVED else min
            partitions[name] = nearer(partitions[name], each.end)
    return result

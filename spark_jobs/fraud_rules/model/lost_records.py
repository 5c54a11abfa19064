"""Describes records of a topic that the detector can never read, and the offset at which it continues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition (as text)."""


class LossReason(StrEnum):
    """The reason why records cannot be read."""

    REMOVED = "removed"  # by retention, or by an administrator
    RECREATED = "recreated"  # the topic was deleted and created again
    TRUNCATED = "truncated"  # the log ends before records already read: an unclean leader election, or an older copy


class LostRecords(msgspec.Struct, frozen=True, rename="camel"):
    """A loss in one partition: the detector's next offset, and the offset at which it continues.

    The latter is None for a deleted partition. `count` is None if Kafka cannot tell the number of lost records; offsets
    of transaction markers count as records.
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
        return f"{where} from {self.end} to {self.start}: the log ends before records already read"


def move_offsets(offsets: Offsets, lost: Iterable[LostRecords]) -> dict[str, dict[str, int]]:
    """Replace each offset that points at lost records by the offset at which the detector continues."""
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

"""The position of a detector's state: the version of each key group's log, and their place in the topic.

The marker of a batch contains it, so one Kafka transaction fixes outputs, state and position together. The driver tells
each task the versions at which its batch starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from fraud_rules.engine.statelog import EMPTY_LOG, StateVersion

__all__ = ["StatePosition", "ToldState", "empty_position", "tell", "told_state"]


class StatePosition(msgspec.Struct, frozen=True, rename="camel"):
    """The state after a batch.

    `versions` has an element for each key group. `topic_id` is Kafka's id of the topic `detector-state`. `starts` and
    `ends` are offsets by partition: the first offset when the state began, and the offset after the last record that
    was known to be written.
    """

    topic_id: str
    starts: list[int]
    ends: list[int]
    versions: list[StateVersion]

    @property
    def partitions(self) -> int:
        """The number of the topic's partitions."""
        return len(self.starts)

    def after(self, changed: dict[int, StateVersion], ends: dict[int, int]) -> StatePosition:
        """The position after a batch that has changed these key groups. `ends` has the newest known ends."""
        versions = [changed.get(key_group, version) for key_group, version in enumerate(self.versions)]
        known = [max(end, ends.get(partition, 0)) for partition, end in enumerate(self.ends)]
        return msgspec.structs.replace(self, versions=versions, ends=known)


def empty_position(topic_id: str, starts: Sequence[int], ends: Sequence[int], key_groups: int) -> StatePosition:
    """The position of a detector without state."""
    return StatePosition(topic_id, list(starts), list(ends), [EMPTY_LOG] * key_groups)


class ToldState(NamedTuple):
    """A key group's state at the start of a batch: its version, and an offset of its partition.

    `end` is the offset after the last record that the driver knew to be written. All records of later versions have
    this offset or a later one. `sweeps` tells the task to delete the orphans after this offset, which the batches of an
    earlier start have left.
    """

    version: StateVersion
    end: int
    sweeps: bool = False


def tell(position: StatePosition, unswept: Collection[int] = ()) -> str:
    """Encode the state at the start of a batch for `told_state`. `unswept` are the key groups to sweep."""
    versions = " ".join(f"{version}:{digest}" for version, digest in position.versions)
    return f"{versions}|{' '.join(map(str, position.ends))}|{' '.join(map(str, sorted(unswept)))}"


def told_state(told: str, key_group: int) -> ToldState:
    """The state of a key group that the driver has told."""
    versions, ends, unswept = _split(told)
    version, _, digest = versions[key_group].partition(":")
    end = int(ends[key_group % len(ends)])
    return ToldState(StateVersion(int(version), int(digest)), end, str(key_group) in unswept)


@lru_cache(maxsize=1)
def _split(told: str) -> list[list[str]]:
    """The words of the three parts of `tell`. All key groups of a task read them."""
    return [part.split(" ") for part in told.split("|")]

"""The position of a detector's state: the version of each key group's log, and their place in the topic.

The marker of a batch contains it, so one Kafka transaction fixes outputs, state and position together. The driver tells
each task the versions at which its batch starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fraud_rules.engine.statelog import EMPTY_LOG, StateVersion


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

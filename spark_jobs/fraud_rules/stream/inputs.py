"""The offsets up to which the input topics can be read by the next batch."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fraud_rules.errors import BrokerUnavailable, OffsetsLost
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.model.lost_records import Offsets

_LOOK_S: Final = 2.0
"""How often the inputs look for added partitions, and for topics that were created again."""

_NO_IDS: Final[Mapping[str, str]] = {}


class InputTopics:
    """The topics whose records trigger a batch."""

    def __init__(
        self, ends: TopicEnds, topics: Sequence[str], ids: Mapping[str, str] = _NO_IDS, unlimited: Collection[str] = ()
    ) -> None:
        """`ids` are Kafka's ids of the topics at the start, by name. A batch reads all new records of the topics
        `unlimited`."""
        self._ends = ends
        self._topics = topics
        self._ids = ids
        self._unlimited = unlimited
        self._places: Mapping[str, Sequence[int]] = {}
        self._looked_s = float("-inf")

    def first(self) -> Offsets:
        """The offsets of the first records that Kafka still holds."""
        self._observe()
        return self._ends.first(self._places)

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        """The end offsets of the next batch, which reads `most` records or a few more, beside those of the unlimited
        topics. None without a new record.

        Raises OffsetsLost if a log ends before its start, because the topic was truncated or created again, or if
        an added partition has lost its first records. Raises BrokerUnavailable.
        """
        try:
            if time.monotonic() >= self._looked_s + _LOOK_S:
                self._observe()
            ends = self._ends.committed(self._places)
        except BrokerUnavailable:
            self._looked_s = float("-inf")  # a topic may be created again until Kafka answers
            raise
        for topic, places in starts.items():
            for place, start in places.items():
                end = ends.get(topic, {}).get(place)
                if end is None or end < start:
                    found = "the partition is gone" if end is None else f"the log ends at {end}"
                    raise _lost(topic, place, start, found)
        if ends == starts:
            return None
        self._check_added(starts, ends)
        bounded = {topic: places for topic, places in ends.items() if topic not in self._unlimited}
        return {**ends, **limited(starts, bounded, most)}

    def _observe(self) -> None:
        self._places = {topic: self._ends.partitions(topic) for topic in self._topics}
        found = self._ends.ids(self._topics) if self._ids else _NO_IDS
        again = [topic for topic, known in self._ids.items() if found[topic] != known]
        if again:
            raise OffsetsLost(
                f"{', '.join(again)}: deleted and created again while the detector ran; the next start names the lost "
                "records"
            )
        self._looked_s = time.monotonic()

    def _check_added(self, starts: Offsets, ends: Offsets) -> None:
        added = {
            topic: [int(place) for place in places if place not in starts.get(topic, {})]
            for topic, places in ends.items()
        }
        if not any(added.values()):
            return
        for topic, places in self._ends.first(added).items():
            for place, first in places.items():
                if first > 0:
                    raise _lost(topic, place, 0, f"the added partition begins at {first}")


def _lost(topic: str, place: str, start: int, found: str) -> OffsetsLost:
    return OffsetsLost(
        f"records are gone before they were read: {topic}-{place} from {start}, but {found}; the next start names them"
    )


def limited(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """The ends of a batch that reads `most` records, or a few more. Each partition gets its share of them."""
    waiting = sum(
        end - starts.get(topic, {}).get(place, 0) for topic, places in ends.items() for place, end in places.items()
    )
    if waiting <= most:
        return ends
    return {
        topic: {place: _share(starts.get(topic, {}).get(place, 0), end, most, waiting) for place, end in places.items()}
        for topic, places in ends.items()
    }


def _share(start: int, end: int, most: int, waiting: int) -> int:
    """The end of a partition's share: at least one record of a partition that has any, so that none waits forever."""
    return min(end, start + max(1, (end - start) * most // waiting)) if end > start else end

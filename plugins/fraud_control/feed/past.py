"""Reads alerts that memory lacks from their topics, backwards, with bounds on the records and the time of a search."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from fraud_control.feed.events import FeedAlert, read_alert, read_correction
from fraud_control.feed.place import FeedSource, Position
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader

MOST_READ: Final = 20_000
_FIRST_CHUNK: Final = 500
_LARGEST_CHUNK: Final = 5_000
_MOST_S: Final = 5.0

PastRecord: TypeAlias = tuple[Position, FeedAlert | None]
"""The position of a record, and its alert; None for a record without an alert."""


class SearchCut(Exception):
    """A search reached its bounds before the start of its topics."""


class PastAlerts:
    """Several threads may use it. `most_read` bounds the records of a search."""

    def __init__(self, kafka: KafkaConnection, topics: TopicNames, most_read: int = MOST_READ) -> None:
        self._kafka = kafka
        self._topics = {
            FeedSource.ALERTS: topics.alerts,
            FeedSource.SHADOW: topics.shadow_alerts,
            FeedSource.CORRECTIONS: topics.alert_corrections,
        }
        self._most_read = most_read

    @contextmanager
    def searching(self) -> Iterator[Search]:
        """Open a search. Its first use sends the first request to the broker."""
        with ExitStack() as stack:
            yield Search(self._kafka, self._topics, stack, self._most_read)

    def at(self, position: Position) -> FeedAlert | None:
        """Read the alert at a position; None if no alert is there. Raises BrokerUnavailable."""
        with self.searching() as search:
            return search.at(position)

    def topic(self, source: FeedSource) -> str:
        """The name of the source's topic."""
        return self._topics[source]


class Search:
    """A search over several topics. The bound on its records applies to all topics together."""

    def __init__(
        self,
        kafka: KafkaConnection,
        topics: Mapping[FeedSource, str],
        stack: ExitStack,
        most_read: int,
    ) -> None:
        self._kafka = kafka
        self._topics = topics
        self._stack = stack
        self._left = most_read
        self._until_s = time.monotonic() + _MOST_S
        self.lost: set[FeedSource] = set()
        """The sources whose topics have lost their oldest records to retention."""

    def at(self, position: Position) -> FeedAlert | None:
        """Read the alert at a position; None if no alert is there."""
        _, number, offset = position
        source = next((each for each in self._topics if each == number), None)
        if source is None:
            return None
        reader = self._reader(source)
        first, end = reader.ends()
        records = reader.read(offset, offset + 1) if first <= offset < end else ()
        found = [_past_record(source, reader.topic, record) for record in records]
        return next((alert for place, alert in found if place == position), None)

    def older(self, source: FeedSource, offset: int, place: Position | None) -> Iterator[PastRecord]:
        """Yield a topic's records before an offset and before a position, newest first.

        Raises SearchCut when the search reaches its bounds, BrokerUnavailable.
        """
        reader = self._reader(source)
        first, end = reader.ends()
        if first > 0:
            self.lost.add(source)
        until, size = min(offset, end, _end_before(reader, source, place, end)), _FIRST_CHUNK
        while until > first:
            start = max(first, until - size)
            records = list(reader.read(start, until))
            self._left -= until - start
            yield from (_past_record(source, reader.topic, record) for record in reversed(records))
            until, size = start, min(2 * size, _LARGEST_CHUNK)
            if until > first and records and (self._left <= 0 or time.monotonic() > self._until_s):
                raise SearchCut

    def _reader(self, source: FeedSource) -> TopicReader:
        return self._stack.enter_context(TopicReader(self._kafka, self._topics[source]))


def _end_before(reader: TopicReader, source: FeedSource, place: Position | None, end: int) -> int:
    """Find the offset after the last record of a topic that is before a position."""
    if place is None:
        return end
    append_ms, of, offset = place
    if of == source:
        return offset
    found = reader.offset_at(append_ms + 1 if source < of else append_ms)
    return end if found is None else found


def _past_record(source: FeedSource, topic: str, record: Record) -> PastRecord:
    return (record.append_ms, int(source), record.offset), _alert(source, topic, record)


def _alert(source: FeedSource, topic: str, record: Record) -> FeedAlert | None:
    def decode(value: bytes) -> FeedAlert | None:
        if source is FeedSource.CORRECTIONS:
            return read_correction(record.offset, record.append_ms, value).alert
        return read_alert(source, record.offset, record.append_ms, value)

    return decode_or_skip(topic, record, decode)

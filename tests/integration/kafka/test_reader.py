"""Readers of offset ranges, as a small batch uses them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fraud_rules.errors import BrokerUnavailable, OffsetsLost
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import TopicReader
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.state_damage import remove_records

TOPIC_ROLES = ("transactions",)

Ranges = Mapping[int, tuple[int, int]]


def _fill(topics: OwnTopics) -> str:
    """Write 100 records, 50 to each of two partitions. Return the topic."""
    topic = topics.names.transactions
    for partition in (0, 1):
        produce(topics.bootstrap, topic, [b"{}"] * 50, partition)
    return topic


def _read(topics: OwnTopics, topic: str, *ranges: Ranges) -> list[dict[int, list[int]]]:
    """The offsets by partition that one reader returns for each of these ranges."""
    found = []
    with TopicReader(topics.kafka, topic) as reader:
        for each in ranges:
            offsets: dict[int, list[int]] = {partition: [] for partition in each}
            for message in reader.read_ranges(each):
                offsets[message.partition()].append(message.offset())  # type: ignore[index,arg-type]
            found.append(offsets)
    return found


def test_each_range_is_read_exactly_and_in_order(topics: OwnTopics) -> None:
    """An empty range and a partition that is read early end nothing; a later range may start before an earlier one."""
    topic = _fill(topics)
    wanted: list[Ranges] = [{0: (3, 50), 1: (10, 12)}, {0: (50, 50), 1: (12, 50)}, {0: (0, 1), 1: (5, 5)}]
    assert _read(topics, topic, *wanted) == [
        {partition: list(range(start, end)) for partition, (start, end) in each.items()} for each in wanted
    ]


@pytest.mark.parametrize("append_ms", [0, -1, -2, -62_135_600_400_000])
def test_a_time_before_1970_is_before_the_first_record(topics: OwnTopics, append_ms: int) -> None:
    topic = _fill(topics)
    with TopicReader(topics.kafka, topic) as reader:
        assert reader.offset_at(append_ms, 1) == 0


def test_a_range_may_end_with_records_that_are_never_visible(topics: OwnTopics) -> None:
    """Markers of transactions and aborted records occupy offsets."""
    topic = _fill(topics)
    with open_transaction(topics, topic):
        pass
    await_settled(topics.kafka, [topic])
    with TopicReader(topics.kafka, topic) as reader:
        end = reader.ends(0)[1]
    assert end == 52, "50 records, the aborted one, and the marker"
    assert _read(topics, topic, {0: (48, end), 1: (49, 50)}) == [{0: [48, 49], 1: [49]}]


def test_a_removed_start_is_an_error(topics: OwnTopics) -> None:
    topic = _fill(topics)
    remove_records(topics, topic, 20)
    with pytest.raises(OffsetsLost, match=f"{topic}-0"):
        _read(topics, topic, {0: (10, 50), 1: (0, 50)})


def test_an_end_that_kafka_does_not_have_is_named(topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_rules.kafka.reader._TIMEOUT_S", 2.0)
    topic = _fill(topics)
    with pytest.raises(BrokerUnavailable, match=r"-1 up to offset 51: its committed records end at 50; .*truncated"):
        _read(topics, topic, {0: (0, 50), 1: (0, 51)})

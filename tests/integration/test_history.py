"""The way back to a state: which batches made it, and what of that is no longer there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, HistoryLost
from fraud_rules.logs.judged_batches import History, read_batches, read_history
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce

pytestmark = pytest.mark.integration


class Past:
    """A detector's progress, written by hand: one transaction a batch, in partition 0 and 1 by turns."""

    def __init__(self, topics: OwnTopics) -> None:
        self.topics = topics
        self.settings = DetectorSettings(topics=topics.names)
        self._ends = [0, 0]

    def batch(self, query_id: str, batch_id: int, rules_end: int = 0, **members: Any) -> None:
        partition = sum(self._ends) % 2
        produce(self.topics.bootstrap, self.topics.names.transactions, [b"%d" % sum(self._ends)], partition)
        self._ends[partition] += 1
        ends = {self.topics.names.transactions: {str(p): end for p, end in enumerate(self._ends)}}
        document = {"queryId": query_id, "batchId": batch_id, "endOffsets": ends, "rulesEnd": rules_end, **members}
        record = msgspec.json.encode(document)
        produce(self.topics.bootstrap, self.topics.names.detector_progress, [record], key=b"detector")

    def history(self, until: tuple[str, int] | None = None) -> History:
        return read_history(self.topics.kafka, self.settings, until)

    def batches(self, history: History) -> list[tuple[int, list[int]]]:
        read = read_batches(history, self.topics.kafka, self.settings)
        return [(each.rules_end, sorted(int(record.value or b"") for record in each.records)) for each in read]

    def forget(self, topic: str, before: int) -> None:
        """What retention does."""
        admin = AdminClient({"bootstrap.servers": self.topics.bootstrap})
        for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
            done.result()


@pytest.fixture
def past(topics: OwnTopics) -> Past:
    return Past(topics)


def test_every_batch_with_what_it_judged(past: Past) -> None:
    for batch_id in range(4):
        past.batch("a", batch_id, rules_end=batch_id)
    history = past.history()
    assert past.batches(history) == [(0, [0]), (1, [1]), (2, [2]), (3, [3])]
    assert history.lost == ()
    assert past.batches(past.history(("a", 1))) == [(0, [0]), (1, [1])]


def test_a_rebuilt_checkpoint_goes_on_from_the_one_before(past: Past) -> None:
    past.batch("a", 0)
    past.batch("b", 0, rebuilt=True)
    past.batch("b", 1, rebuilt=True)
    assert past.batches(past.history()) == [(0, [0]), (0, [1]), (0, [2])]


def test_one_begun_with_no_state_is_a_beginning(past: Past) -> None:
    past.batch("a", 0)
    past.batch("b", 0)
    past.batch("c", 0, rebuilt=True)
    assert past.batches(past.history()) == [(0, [1]), (0, [2])]


def test_what_retention_has_removed_is_named_and_can_be_gone_without(past: Past) -> None:
    for batch_id in range(6):
        past.batch("a", batch_id)
    past.forget(past.topics.names.transactions, 1)
    history = past.history()
    with pytest.raises(HistoryLost, match=f"{past.topics.names.transactions}-0 from 0 to 1"):
        history.require(partial=False)
    history.require(partial=True)
    assert past.batches(history) == [(0, []), *[(0, [each]) for each in range(1, 6)]]
    past.forget(past.topics.names.detector_progress, 2)
    history = past.history()
    with pytest.raises(HistoryLost, match="the first 2 batches"):
        history.require(partial=False)
    assert past.batches(history) == [(0, [3]), (0, [4]), (0, [5])]


def test_batches_missing_in_the_middle_are_no_history(past: Past) -> None:
    past.batch("a", 0)
    past.batch("a", 2)
    with pytest.raises(FraudError, match="lacks batches before 2"):
        past.history()


def test_nothing_judged_is_no_history(past: Past) -> None:
    with pytest.raises(FraudError, match="has not evaluated anything"):
        past.history()

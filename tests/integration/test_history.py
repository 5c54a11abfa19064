"""The batch history: the batches that made a state, and records that retention removed."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, HistoryLost
from fraud_rules.kafka.reader import newest_append_ms
from fraud_rules.logs.batch_history import History, read_ends, read_history
from fraud_rules.logs.recorder import record_run
from fraud_rules.replay.need import HistoryNeed
from fraud_rules.replay.segments import segments_of
from fraud_rules.runtime.clock import now_ms
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.state_damage import remove_records
from tests.support.records.progress import progress_record
from tests.support.waiting import until

pytestmark = pytest.mark.integration
TOPIC_ROLES = ("detector_progress", "rule_operations", "rules", "transactions")


class Past:
    """Handmade progress of a detector: one transaction per batch, in partitions 0 and 1 in turn."""

    def __init__(self, topics: OwnTopics) -> None:
        self.topics = topics
        self.settings = DetectorSettings(topics=topics.names)
        self._ends = [0, 0]

    def batch(self, query_id: str, batch_id: int, rules_end: int = 0, **members: Any) -> None:
        partition = sum(self._ends) % 2
        produce(self.topics.bootstrap, self.topics.names.transactions, [b"%d" % sum(self._ends)], partition)
        self._ends[partition] += 1
        ends = {self.topics.names.transactions: {str(p): end for p, end in enumerate(self._ends)}}
        record = progress_record(batch_id, ends, queryId=query_id, rulesEnd=rules_end, **members)
        produce(self.topics.bootstrap, self.topics.names.detector_progress, [record], key=b"detector")

    def history(self, at: tuple[str, int] | None = None, need: HistoryNeed | None = None) -> History:
        return read_history(self.topics.kafka, self.settings, at, need=need)

    def later(self) -> int:
        """A time after all records so far. All further records have a later time."""
        newest_ms = newest_append_ms(self.topics.kafka, self.topics.names.detector_progress) or 0
        until(lambda: now_ms() > newest_ms + 1, "the clock moves")
        return newest_ms + 1

    def batches(self, history: History) -> list[tuple[int, list[int]]]:
        """The end of the rule log of each batch that has read transactions, and how many it has read."""
        read = segments_of(read_ends(history, self.topics.kafka, self.settings), history.starts, most_records=1)
        return [(int(each.rules_ends[0]), each.records) for each in read]

    def forget(self, topic: str, before: int) -> None:
        remove_records(self.topics, topic, before)


@pytest.fixture
def past(topics: OwnTopics) -> Past:
    return Past(topics)


def test_the_history_has_every_batch_with_its_transactions(past: Past) -> None:
    for batch_id in range(4):
        past.batch("a", batch_id, rules_end=batch_id)
    history = past.history()
    assert past.batches(history) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert history.lost == ()
    assert past.batches(past.history(("a", 1))) == [(0, 1), (1, 1)]


def test_a_checkpoint_without_state_starts_a_history(past: Past) -> None:
    past.batch("a", 0)
    past.batch("b", 0)
    past.batch("b", 1)
    assert past.batches(past.history()) == [(0, 1), (0, 1)]


def test_a_recording_begins_with_the_last_checkpoint_without_state(past: Past) -> None:
    for query_id, batch_id in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        past.batch(query_id, batch_id)
    recording = record_run(past.topics.kafka, past.settings, load_schema("default"))
    assert [dict(each.ends) for each in recording.batches] == [{0: 2, 1: 1}, {0: 2, 1: 2}]
    assert [each.value for each in recording.transactions] == [b"2", b"3"]


def test_records_that_retention_removed_are_named_and_can_be_skipped(past: Past) -> None:
    for batch_id in range(6):
        past.batch("a", batch_id)
    past.forget(past.topics.names.transactions, 1)
    history = past.history()
    with pytest.raises(HistoryLost, match=f"{past.topics.names.transactions}-0 from 0 to 1"):
        history.require(partial=False)
    history.require(partial=True)
    assert past.batches(history) == [(0, 1)] * 5
    past.forget(past.topics.names.detector_progress, 2)
    history = past.history()
    with pytest.raises(HistoryLost, match="the batches before offset 2"):
        history.require(partial=False)
    assert past.batches(history) == [(0, 1)] * 3


def test_only_the_needed_batches_are_read(past: Past) -> None:
    for batch_id in range(4):
        past.batch("a", batch_id)
    from_ms = past.later()
    past.batch("a", 4)
    past.batch("a", 5)
    history = past.history(need=HistoryNeed(from_ms, marks=False))
    assert past.batches(history) == [(0, 1), (0, 1)]
    assert (history.lost, history.known_from_ms) == ((), from_ms)
    history = past.history(need=HistoryNeed(from_ms, marks=True))
    assert past.batches(history) == [(0, 1)] * 6
    assert (history.lost, history.known_from_ms) == ((), None)


def test_the_loss_of_batches_that_are_not_needed_is_accepted(past: Past) -> None:
    for batch_id in range(4):
        past.batch("a", batch_id)
    from_ms = past.later()
    for batch_id in range(4, 7):
        past.batch("a", batch_id)
    past.forget(past.topics.names.transactions, 1)
    past.forget(past.topics.names.detector_progress, 3)
    for marks in (False, True):
        history = past.history(need=HistoryNeed(from_ms, marks))
        assert past.batches(history) == [(0, 1)] * 3
        assert (history.lost, history.known_from_ms) == ((), from_ms)
        assert past.history(need=HistoryNeed(from_ms - 1_000_000, marks)).lost
    past.forget(past.topics.names.transactions, 3)
    assert past.history(need=HistoryNeed(from_ms, marks=False)).lost


def test_the_first_batch_of_a_detector_begins_its_history(past: Past) -> None:
    past.batch("a", 0)
    past.batch("b", 0)
    from_ms = past.later()
    past.batch("b", 1)
    history = past.history(need=HistoryNeed(from_ms, marks=False))
    assert past.batches(history) == [(0, 1), (0, 1)]
    assert (history.lost, history.known_from_ms) == ((), None)


def test_batches_missing_in_the_middle_are_no_history(past: Past) -> None:
    past.batch("a", 0)
    past.batch("a", 2)
    with pytest.raises(FraudError, match="lacks batches before 2"):
        past.history()


def test_a_detector_without_batches_has_no_history(past: Past) -> None:
    with pytest.raises(FraudError, match="has not evaluated anything"):
        past.history()

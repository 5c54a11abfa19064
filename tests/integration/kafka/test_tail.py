"""Readers that start at the end of topics."""

from __future__ import annotations

import threading

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.tail import TopicsTail
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.state_damage import recreate
from tests.support.waiting import until

TOPIC_ROLES = ("detector_intents", "detector_progress")


def test_a_tail_of_a_growing_topic_ends(topics: OwnTopics) -> None:
    """The next read continues there: each record once, in order, also in a topic that is empty at first."""
    grows, quiet = topics.names.detector_progress, topics.names.detector_intents
    produce(topics.bootstrap, grows, [b"before"] * 5)
    stop = threading.Event()

    def grow() -> None:
        while not stop.wait(0.05):
            produce(topics.bootstrap, grows, [b"meanwhile"])

    thread = threading.Thread(target=grow, daemon=True)
    thread.start()
    try:
        with TopicsTail(topics.kafka, {grows: 3, quiet: None}) as tail:
            first = tail.new()
            assert len(first[grows]) >= 3
            assert first[quiet] == []
            produce(topics.bootstrap, quiet, [b"an intent"])
            seen = [record.offset for record in first[grows]]

            def arrived() -> bool:
                new = tail.new()
                seen.extend(record.offset for record in new[grows])
                return bool(new[quiet])

            until(arrived, "the records appended since arrive")
    finally:
        stop.set()
        thread.join()
    assert seen[0] >= 2, "the last three records at the start of the read, which are after the first five"
    assert seen == list(range(seen[0], seen[0] + len(seen)))


def test_a_topic_that_was_created_again_is_noticed(topics: OwnTopics) -> None:
    """Its offsets are those of other records. A new tail reads it from its beginning."""
    name = topics.names.detector_intents
    produce(topics.bootstrap, name, [b"an intent"] * 3)
    with TopicsTail(topics.kafka, {name: None}) as tail:
        assert len(tail.new()[name]) == 3
        recreate(topics, name)
        produce(topics.bootstrap, name, [b"another intent"])

        def raises() -> bool:
            try:
                tail.new()
            except BrokerUnavailable as error:
                return "ends before offset 3" in str(error)
            return False

        until(raises, "the tail notices the new topic")
    with TopicsTail(topics.kafka, {name: None}) as tail:
        assert [record.value for record in tail.new()[name]] == [b"another intent"]

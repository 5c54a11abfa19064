"""A producer that leaves a transaction open hides the payments of all others. The supervision counts and names it.

The topic `transactions` has the producers' timestamps here, so that the open transaction is old at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Producer

from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.settings import DetectorSettings, HealthSettings
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.transactional_ids import detector_id
from fraud_rules.kafka.writer import keep_until_exit
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import Liveness, Severity
from fraud_rules.monitoring.liveness_reader import LivenessReader
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.lag_meter import LagMeter
from fraud_rules.stream.inputs import InputTopics
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.records import produce
from tests.support.kafka.timed_topics import date_by_producer
from tests.support.processes.fraud_command import fraud
from tests.support.records.progress import progress_record
from tests.support.waiting import until

pytestmark = pytest.mark.integration

READ = 5
"""The payments that the last batch has read."""

BEHIND = 1_000
"""The payments of other producers behind the open transaction."""


@dataclass(frozen=True)
class HungProducer:
    """A producer whose transaction stays open until `end` aborts it."""

    producer: Producer
    topic: str
    name: str
    since_ms: int

    def end(self) -> None:
        self.producer.abort_transaction(30)


@contextmanager
def hung_producer(topics: OwnTopics, topic: str, *, age_s: int, transactional_id: str = "") -> Iterator[HungProducer]:
    """Open a transaction with one record that is `age_s` old, in a topic with producer timestamps."""
    name, since_ms = transactional_id or f"{topics.prefix}gateway", now_ms() - age_s * 1_000
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": name, "linger.ms": 0})
    keep_until_exit(producer)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=0, timestamp=since_ms)
    assert producer.flush(30) == 0
    yield HungProducer(producer, topic, name, since_ms)


@pytest.fixture
def settings(topics: OwnTopics) -> DetectorSettings:
    """A detector whose last batch has ended now and has read READ payments."""
    name = topics.names.transactions
    date_by_producer(topics, name)
    produce(topics.bootstrap, name, [b"{}"] * READ, at_ms=now_ms() - 90_000)
    progress = progress_record(7, {name: {"0": READ}}, rows=5)
    produce(topics.bootstrap, topics.names.detector_progress, [progress], key=b"detector")
    return DetectorSettings(detector="detector", topics=topics.names)


def polled(reader: LivenessReader) -> Liveness:
    reader.poll()
    return reader.liveness()


def test_payments_behind_an_open_transaction_wait_until_it_is_aborted(
    topics: OwnTopics, settings: DetectorSettings
) -> None:
    name = topics.names.transactions
    ends = TopicEnds(topics.kafka)
    inputs, meter = InputTopics(ends, (name,)), LagMeter(ends, name)
    meter.start()
    with (
        LivenessReader(topics.kafka, settings) as reader,
        hung_producer(topics, name, age_s=45) as hung,
        closing(DetectorObserver(topics.kafka, settings)) as observer,
    ):
        produce(topics.bootstrap, name, [b"{}"] * BEHIND)
        read = {name: {"0": READ, "1": 0}}
        assert inputs.new_ends(read, 10_000) is None, "the detector cannot read them"
        waiting = BEHIND + 1  # with the record of the open transaction
        seen = polled(reader)
        assert (seen.waiting, seen.severity) == (waiting, Severity.AMBER)
        found = seen.open_transaction
        assert found is not None and found.producer_id is not None
        assert found == OpenTransaction(name, 0, READ, hung.since_ms, found.producer_id, hung.name)
        assert until(lambda: meter.lag(read[name]) == waiting, "the lag of the next batch counts them")
        meter.stop()

        verdict = assess_detector(observer.observe(), HealthSettings(), now_ms())
        assert verdict.health is Health.HUNG_PRODUCER
        said = f"a transaction of producer {found.producer_id} ({hung.name}) has been open for "
        assert verdict.reasons[0].startswith(said)
        assert verdict.reasons[0].endswith(f" s and hides the records of {name}-0 from offset {READ} on")

        status = fraud("status", env=topics.environment)
        assert f"offset {READ} on (docs/runbooks/hung-producer.md). {waiting:,} payments waiting." in status.out
        shown = json.loads(fraud("status", "--json", env=topics.environment).out)["liveness"]
        assert shown["openTransaction"]["producerId"] == found.producer_id

        hung.end()
        until(lambda: inputs.new_ends(read, 10_000), "the detector can read them")
        cleared = until(lambda: (now := polled(reader)).open_transaction is None and now, "the outage ends")
        assert (cleared.severity, cleared.waiting) == (Severity.NONE, BEHIND + 2)  # with the marker of the abort
    with DetectorObserver(topics.kafka, settings) as observer:
        assert assess_detector(observer.observe(), HealthSettings(), now_ms()).health is Health.HEALTHY


def test_a_transaction_of_another_detector_hides_the_reports_and_the_own_one_does_not(
    topics: OwnTopics, settings: DetectorSettings
) -> None:
    name, other = topics.names.detector_progress, replace(settings, detector=f"{topics.prefix}other")
    transactional_id = detector_id(other.detector)
    with (
        hung_producer(topics, name, age_s=0, transactional_id=transactional_id) as hung,
        DetectorObserver(topics.kafka, settings) as observer,
        DetectorObserver(topics.kafka, other) as own_observer,
    ):
        hidden = until(lambda: observer.observe().hidden_reports, "the records have been hidden for some time")
        assert (hidden.topic, hidden.transactional_id) == (name, transactional_id)
        assert own_observer.observe().hidden_reports is None
        hung.end()


def test_a_short_transaction_in_flight_raises_nothing(topics: OwnTopics, settings: DetectorSettings) -> None:
    name = topics.names.transactions
    with (
        LivenessReader(topics.kafka, settings) as reader,
        hung_producer(topics, name, age_s=0) as hung,
        DetectorObserver(topics.kafka, settings) as observer,
    ):
        produce(topics.bootstrap, name, [b"{}"] * BEHIND)
        seen = polled(reader)
        assert (seen.waiting, seen.severity, seen.open_transaction) == (BEHIND + 1, Severity.NONE, None)
        assert assess_detector(observer.observe(), HealthSettings(), now_ms()).health is Health.HEALTHY
        hung.end()


def test_an_open_transaction_in_the_rule_log_is_named(topics: OwnTopics, settings: DetectorSettings) -> None:
    name = topics.names.rules
    date_by_producer(topics, name)
    with LivenessReader(topics.kafka, settings) as reader, hung_producer(topics, name, age_s=61) as hung:
        seen = polled(reader)
        assert (seen.severity, seen.waiting) == (Severity.RED, 0)
        assert seen.open_transaction is not None and seen.open_transaction.topic == name
        hung.end()


def test_a_missing_topic_is_named_although_the_last_batch_is_recent(
    topics: OwnTopics, settings: DetectorSettings
) -> None:
    names = [getattr(topics.names, role) for role in ("rules", "detector_state", "transactions")]
    with LivenessReader(topics.kafka, settings) as reader:
        assert polled(reader).severity is Severity.NONE
        for count, name in enumerate(names, 1):
            delete_topics(topics.kafka, [topic for topic in topics.declared if topic.name == name])
            missing = until(lambda more=count: len(found := polled(reader).missing) == more and found, "it is seen")  # type: ignore[misc]
            assert sorted(missing) == sorted(names[:count])
            assert reader.liveness().severity is Severity.AMBER
    status = fraud("status", env=topics.environment)
    said = f"payments  The next batch waits for missing topics: {', '.join(missing)} (fraud kafka topics apply)."
    assert said in status.out

"""A detector that has written nothing for longer than the broker remembers its writer (Kafka's default: seven days).

Ticks make a running detector write at least every 20 s. So only a suspended or a stopped one is idle for so long.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.kafka.transactional_ids import detector_id
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.locked_broker import LockedBroker
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.records import produce
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.records.payments import sample_payment
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(600)]

FORGETS = {  # more than a start needs between its first transaction and its first batch
    "transactional.id.expiration.ms": "45000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "30000",
    "producer.id.expiration.check.interval.ms": "500",
}
RULE = b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(3),(60)"
PAYMENTS = 10


class Site:
    """A detector, its payments, and its starts."""

    def __init__(self, home: Path, project: Project, topics: OwnTopics) -> None:
        self.topics = topics
        self.installation = Installation.make(home, project, topics, tick_ms=500, key_groups=4)
        self.documents: dict[bytes, dict[str, Any] | None] = {}
        self.starts: list[RunningDetector] = []

    def start(self) -> None:
        self.starts.append(RunningDetector(self.installation))

    def pay(self) -> None:
        for _ in range(PAYMENTS):
            number = len(self.documents)
            members = sample_payment(number, now_ms(), payeeId=number % 2)
            self.documents[json.dumps(members).encode()] = members
        produce(self.topics.bootstrap, self.topics.names.transactions, list(self.documents)[-PAYMENTS:], partition=0)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        self.starts[-1].suspend()
        yield
        self.starts[-1].signal_all(signal.SIGCONT)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        assert self.starts[-1].stop() == 0, self.starts[-1].said()[-2000:]
        yield
        self.start()

    def await_evaluated(self) -> None:
        """Wait until every payment is evaluated. As a supervisor does, start a detector again that ends by name."""
        names, kafka = self.topics.names, self.topics.kafka
        ends, rules_end = topic_ends(kafka, names.transactions), topic_ends(kafka, names.rules)[0]

        def are_evaluated() -> bool:
            code = self.starts[-1].exit_code
            if code is not None:
                assert code == BrokerUnavailable.exit_code, (code, self.starts[-1].said()[-2000:])
                self.start()
            return self.installation.has_read(ends, rules_end)

        until(are_evaluated, "every payment is evaluated", every_s=0.2)


def test_a_detector_continues_after_the_broker_has_forgotten_its_writer(project: Project, tmp_path: Path) -> None:
    broker = LockedBroker.make(tmp_path, project, FORGETS, {"security.protocol": "PLAINTEXT"})
    broker.start()
    try:
        with own_topics(broker, project) as topics:
            site = Site(tmp_path / "site", project, topics)
            try:
                produce(topics.bootstrap, topics.names.rules, [RULE])
                site.start()
                site.pay()
                site.await_evaluated()
                for idle in (site.suspended, site.stopped):
                    with idle():
                        await_forgotten(topics, detector_id(site.installation.settings.detector))
                        site.pay()
                    site.await_evaluated()
                assert site.starts[-1].stop() == 0, site.starts[-1].said()[-2000:]
            finally:
                for detector in site.starts:
                    detector.kill()
            found, counts = differences(site.installation, site.documents)
            assert not found, "\n".join(found)
            assert counts["alerts"] > 0
    finally:
        broker.kill()


def await_forgotten(topics: OwnTopics, transactional_id: str) -> None:
    """Wait until the broker has removed the state of a writer, from now on."""
    settings = {"bootstrap.servers": topics.bootstrap, "group.id": "forgotten", "enable.auto.commit": False}
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        partitions = consumer.list_topics("__transaction_state", 10.0).topics["__transaction_state"].partitions
        consumer.assign([TopicPartition("__transaction_state", partition, 0) for partition in partitions])
        known: dict[bytes, bool] = {}

        def is_forgotten() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                known[message.key() or b""] = message.value() is not None
            return any(transactional_id.encode() in key and not kept for key, kept in known.items())

        until(is_forgotten, "the broker has forgotten the writer", every_s=0.0)

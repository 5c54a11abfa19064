"""Load on a detector: a thread that appends transactions and rules until it is stopped, even during broker outages."""

from __future__ import annotations

import random
import threading
import time
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from fraud_rules.runtime.clock import MS_PER_S
from tests.support.kafka.own_topics import OwnTopics
from tests.support.recovery.traffic import Traffic

_FLUSH_S = 90.0


class Load:
    """Writes `rate` transactions per second, fewer once the allowance is used up, and about one rule per second.

    The allowance bounds the oracle's input, no matter how long the kills take.
    """

    def __init__(self, topics: OwnTopics, seed: int, rate: float, trickle: float = 4.0, warm_ups: bool = False) -> None:
        self.traffic = Traffic(seed, warm_ups=warm_ups)
        self._topics = topics
        self._random = random.Random(seed + 1)
        self._rate, self._trickle = rate, trickle
        self._allowance = self._burst = 0
        self._stop = threading.Event()
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": topics.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        for _ in range(6):
            self.write_rule(self.traffic.rule())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def allow(self, transactions: int) -> None:
        """Allow this many more transactions at the full rate."""
        self._allowance = transactions

    def burst(self, transactions: int) -> None:
        """Write this many transactions as fast as possible."""
        self._burst = transactions

    def write_rule(self, record: bytes) -> None:
        """Append a record to the rule log."""
        self._producer.produce(self._topics.names.rules, record, partition=0, on_delivery=self._delivered)

    def finish(self) -> None:
        """Stop the load and return once the broker has stored every record."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_S)
        assert left == 0, f"{left} records were not delivered"
        assert not self._failed, self._failed[:3]

    def _run(self) -> None:
        next_rule = time.monotonic()
        while not self._stop.is_set():
            rate = self._rate if self._allowance > 0 else self._trickle
            self._allowance -= 1
            partition, record = self.traffic.transaction(int(time.time() * MS_PER_S))
            self._producer.produce(
                self._topics.names.transactions, record, partition=partition, on_delivery=self._delivered
            )
            if time.monotonic() >= next_rule:
                self.write_rule(self.traffic.rule())
                next_rule = time.monotonic() + self._random.expovariate(1.0)
            self._producer.poll(0)
            if self._burst > 0:
                self._burst -= 1
            else:
                self._stop.wait(self._random.expovariate(rate))

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        # A producer learns of a new partition with its next metadata. Records before that were not sent.
        if error is not None and error.code() != KafkaError._UNKNOWN_PARTITION:
            self._failed.append(error)

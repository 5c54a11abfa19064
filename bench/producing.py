"""Puts loads into Kafka: a backlog that becomes readable at one instant, and a steady stream from a process of its own.

`python -m bench.producing --bootstrap B --topic T --rate 1000 --seconds 60` is the steady stream.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

from confluent_kafka import Producer

from bench.loads import PARTITIONS, RATE_UNIFORM, Load, Made, transactions
from fraud_rules.runtime.clock import now_ms

_POLL_EVERY = 20_000
_FLUSH_S = 120.0
_SETTINGS = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "log_level": 2,
}


class Backlog:
    """A load written in a Kafka transaction: the broker has all of it, and a reader of committed records nothing, until
    `release`. So a running, idle, warm detector meets a whole backlog at one known instant."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {**_SETTINGS, "bootstrap.servers": bootstrap, "transactional.id": f"bench-{topic}"}
            | {"transaction.timeout.ms": 600_000}
        )
        self._producer.init_transactions(30.0)

    def hold(self, made: Iterable[Made]) -> None:
        """Write transactions; nobody reads them yet."""
        self._producer.begin_transaction()
        for i, _, text in made:
            self._producer.produce(self._topic, text, partition=i % PARTITIONS)
            if i % _POLL_EVERY == 0:
                self._producer.poll(0)
        left = self._producer.flush(_FLUSH_S)
        assert not left, f"{left} records not taken by the broker"

    def release(self) -> int:
        """Make it readable. The time right before, epoch ms."""
        started_ms = now_ms()
        self._producer.commit_transaction(30.0)
        return started_ms


def produce_steadily(bootstrap: str, topic: str, load: Load, rate: float) -> dict[str, float]:
    """Write a load at a rate, each transaction's eventTime the wall clock when it is written.

    How far behind its schedule the producer itself was, in ms: what is late here is not the detector's latency.
    """
    producer = Producer({**_SETTINGS, "bootstrap.servers": bootstrap, "acks": 1})
    made = transactions(load, clock=now_ms)
    behind: list[float] = []
    start = time.perf_counter()
    for n in range(load.count):
        due = start + n / rate
        ahead = due - time.perf_counter()
        if ahead > 0:
            producer.poll(0)
            time.sleep(max(0.0, due - time.perf_counter()))
        behind.append(time.perf_counter() - due)
        i, time_ms, text = next(made)
        producer.produce(topic, text, partition=i % PARTITIONS, timestamp=time_ms)
        if i % 100 == 0:
            producer.poll(0)
    producer.flush(_FLUSH_S)
    behind.sort()
    elapsed = time.perf_counter() - start
    return {"rate": load.count / elapsed, "behind_p99_ms": 1_000 * behind[int(len(behind) * 0.99)]}


def main() -> int:
    """The steady stream of a process of its own; ends after the load, with one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.producing", description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, required=True, help="transactions a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--id-base", type=int, default=0, help="ids begin after this")
    given = parser.parse_args()
    load = replace(RATE_UNIFORM, count=int(given.rate * given.seconds), id_base=given.id_base)
    print(json.dumps(produce_steadily(given.bootstrap, given.topic, load, given.rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes loads to Kafka: a backlog that becomes readable at one moment, and a steady stream from a separate process.

`python -m bench.inputs.producing --bootstrap B --topic T --rate 1000 --seconds 60` is the steady stream.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

from confluent_kafka import Producer

from bench.inputs.loads import PARTITIONS, RATE_UNIFORM, Load, Made, transactions
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
    """A load in one Kafka transaction: the broker has all records, but a `read_committed` consumer sees none until
    `release`. So a running, idle, warm detector gets a whole backlog at one known moment."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {**_SETTINGS, "bootstrap.servers": bootstrap, "transactional.id": f"bench-{topic}"}
            | {"transaction.timeout.ms": 600_000}
        )
        self._producer.init_transactions(30.0)

    def hold(self, made: Iterable[Made]) -> None:
        """Write transactions without a commit, so that no consumer sees them yet."""
        self._producer.begin_transaction()
        for i, _, text in made:
            self._producer.produce(self._topic, text, partition=i % PARTITIONS)
            if i % _POLL_EVERY == 0:
                self._producer.poll(0)
        left = self._producer.flush(_FLUSH_S)
        assert not left, f"{left} records were not accepted by the broker"

    def release(self) -> int:
        """Commit the load. Return the time right before, in epoch ms."""
        started_ms = now_ms()
        self._producer.commit_transaction(30.0)
        return started_ms


def produce_steadily(bootstrap: str, topic: str, load: Load, rate: float) -> dict[str, float]:
    """Write a load at a rate. Each transaction's eventTime is the wall clock of its write.

    The result has the producer's own delay behind its schedule, in ms, which is not part of the detector's latency.
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
    """Write the steady stream in a separate process, and print one line of JSON at the end."""
    parser = argparse.ArgumentParser(prog="python -m bench.inputs.producing", description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, required=True, help="transactions per second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--id-base", type=int, default=0, help="ids start after this number")
    options = parser.parse_args()
    load = replace(RATE_UNIFORM, count=int(options.rate * options.seconds), id_base=options.id_base)
    print(json.dumps(produce_steadily(options.bootstrap, options.topic, load, options.rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measures alert latency: a live `read_committed` consumer in a separate process.

Latency is the wall clock at receipt minus the transaction's eventTime. The steady load sets eventTime to the wall clock
of its write. `python -m bench.meters.watching --bootstrap B --alerts T` prints `ready` once it reads. It ends after
`--idle` seconds without an alert, and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

_FIRST_ALERT_S = 120.0
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def main() -> int:
    """Read alerts until the end of the load, and print the percentiles."""
    parser = argparse.ArgumentParser(prog="python -m bench.meters.watching", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--alerts", required=True)
    parser.add_argument(
        "--skip-seconds", type=float, default=15, help="the first seconds of the load, which are not measured"
    )
    parser.add_argument("--idle", type=float, default=5)
    options = parser.parse_args()
    consumer = _consumer_at_end(options.bootstrap, options.alerts)
    print("ready", flush=True)
    seen, duplicates = _watch(consumer, options.idle)
    print(json.dumps(summary(seen, options.skip_seconds * 1_000) | {"duplicates": duplicates}))
    return 0


def summary(seen: Sequence[tuple[int, float]], skip_ms: float) -> dict[str, float]:
    """Percentiles in ms from (eventTime, latency) pairs, without the transactions of the first `skip_ms`; `max_at_s` is
    the send time of the slowest alert's transaction, in seconds since the first one."""
    start_ms = min(sent for sent, _ in seen) + skip_ms
    measured = sorted(latency for sent, latency in seen if sent >= start_ms)
    slowest_sent, _ = max((each for each in seen if each[0] >= start_ms), key=lambda each: each[1])
    return {
        "alerts": len(seen),
        "measured": len(measured),
        "p50_ms": quantile(measured, 0.5),
        "p95_ms": quantile(measured, 0.95),
        "p99_ms": quantile(measured, 0.99),
        "max_ms": measured[-1],
        "max_at_s": (slowest_sent - min(sent for sent, _ in seen)) / 1_000,
    }


def quantile(ordered: Sequence[float], q: float) -> float:
    """The value below which a share `q` of the ascending values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


def quantiles(name: str, times_ms: Sequence[float], *labels: str) -> dict[str, float]:
    """The values of `NAME_LABEL_ms`; a label is p50, p95, p99 or max."""
    ordered = sorted(times_ms)
    return {f"{name}_{label}_ms": quantile(ordered, _SHARES[label]) for label in labels}


def _consumer_at_end(bootstrap: str, topic: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench-watching",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 5,
        "log_level": 2,
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    places = [TopicPartition(topic, number) for number in partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
    consumer.assign(places)
    return consumer


def _watch(consumer: Consumer, idle_s: float) -> tuple[list[tuple[int, float]], int]:
    """Return (eventTime, latency) of each alert, and the number of duplicates."""
    seen: list[tuple[int, float]] = []
    ids: set[str] = set()
    deadline = time.monotonic() + _FIRST_ALERT_S
    while time.monotonic() < deadline:
        for message in consumer.consume(5_000, timeout=0.005):
            assert message.error() is None, str(message.error())
            now_ms, alert = time.time() * 1_000, json.loads(message.value())
            deadline = time.monotonic() + idle_s
            ids.add(alert["alertId"])
            sent_ms = alert["triggeringEvent"]["eventTime"]
            seen.append((sent_ms, now_ms - sent_ms))
    assert seen, f"no alert within {_FIRST_ALERT_S:g} s"
    return seen, len(seen) - len(ids)


if __name__ == "__main__":
    sys.exit(main())

"""Measures a start, a rule change, and a recovery after a kill."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Producer

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import FIRE_ALL, Document, encoded, rule
from bench.lab import Lab, Session
from bench.meters.recovery import recovery_s
from bench.meters.watching import quantiles
from fraud_rules.kafka.consume import ReceivedRecord
from fraud_rules.runtime.clock import now_ms

_RATE = 1_000
_CHANGES = 20
_WAITING = 1_000
_PATIENCE_S = 30.0


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("operations") as session:
        values = {"start_s": _start(session)}
        changes = scale.of(_CHANGES, 5)
        seconds = 2 * changes + 120
        with session.steady(_RATE, seconds, 10_000_000):
            values |= _changes(session, changes)
            values["recovery_s"] = recovery_s(session)
        return values


def _start(session: Session) -> float:
    """Return the seconds from the start of the process until a reader has the first alert of waiting transactions."""
    backlog = Backlog(session.bootstrap, session.names.transactions)
    session.apply(FIRE_ALL)
    backlog.hold(transactions(UNIFORM_500K.first(_WAITING)))
    backlog.release()
    detector = session.launch()
    next(session.received(session.names.alerts, from_start=True))
    first_alert_s = time.monotonic() - detector.started
    session.await_evaluated(1)
    return first_alert_s


def _changes(session: Session, count: int) -> dict[str, float]:
    """Change the firing rule repeatedly under load, at times unrelated to the batches. Return the times in ms from the
    send of the rule record, by a connected producer, until a reader has its rule operation, and until a reader has the
    first alert under it."""
    rng = random.Random(count)  # noqa: S311 - only for random times
    topics = (session.names.rule_operations, session.names.alerts)
    records = session.received(*topics)
    next(records)  # wait until the load has started
    producer = Producer({"bootstrap.servers": session.bootstrap, "acks": "all"})
    producer.list_topics(session.names.rules, timeout=_PATIENCE_S)
    live, alerted = [], []
    for n in range(count):
        _pass(records, 0.5 + rng.random())
        appended_ms = now_ms()
        [version] = _send(producer, session, (rule(1, ["payeeId", "beneficiaryId"], "SUM", -1 - n),))
        seen: dict[str, int] = {}
        while len(seen) < len(topics):
            received = next(records)
            if json.loads(received.record.value or b"{}").get("ruleVersion") == version:
                seen.setdefault(received.topic, received.received_ms)
        live.append(seen[topics[0]] - appended_ms)
        alerted.append(seen[topics[1]] - appended_ms)
    labels = ("p50", "p95", "max")
    return quantiles("live", live, *labels) | quantiles("alerted", alerted, *labels)


def _send(producer: Producer, session: Session, rules: tuple[Document, ...]) -> list[int]:
    """Append rules, and return their versions."""
    versions: list[int] = []
    for key, text in encoded(rules):
        producer.produce(
            session.names.rules, text, key, partition=0, on_delivery=lambda _, it: versions.append(it.offset())
        )
    producer.flush(_PATIENCE_S)
    assert len(versions) == len(rules), "a rule was not delivered"
    return versions


def _pass(records: Iterator[ReceivedRecord], seconds: float) -> None:
    """Continue to read for this time."""
    until = time.monotonic() + seconds
    next(itertools.dropwhile(lambda _: time.monotonic() < until, records))


_LIVE = "sending a rule to its `rule-operations` record"
_ALERTED = "sending a rule to the first alert under it"

ROWS = (
    Rows(
        "operations",
        "Starting, changing rules, recovering",
        f"Waiting transactions at the start; {_CHANGES} changes of a rule at {_RATE:,} tx/s; kill -9 of driver, JVM "
        "and workers under this load, with an immediate restart.",
        (
            Figure("start_s", "start to first alert", "s", at_most(10), promise=True),
            Figure("live_p50_ms", f"{_LIVE}, p50", "ms"),
            Figure("live_p95_ms", f"{_LIVE}, p95", "ms", at_most(60), promise=True),
            Figure("live_max_ms", f"{_LIVE}, largest", "ms", at_most(1_000)),
            Figure("alerted_p50_ms", f"{_ALERTED}, p50", "ms"),
            Figure("alerted_p95_ms", f"{_ALERTED}, p95", "ms", at_most(1_000), promise=True),
            Figure("alerted_max_ms", f"{_ALERTED}, largest", "ms", at_most(1_000)),
            Figure("recovery_s", "kill -9 to next committed batch", "s", at_most(12), promise=True),
        ),
        _measure,
    ),
)

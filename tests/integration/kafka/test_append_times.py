"""A topic whose timestamp type changes while the detector runs: no record is evaluated under its producer's time.

A small batch is long: the codec, whose unit tests show the refusal, reads both kinds of batch.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_rules.codec.transactions.codec import NO_APPEND_TIME, UNTIMED
from fraud_rules.configuration.project import Project
from fraud_rules.errors import TopicUnsuitable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.timed_topics import date_by_producer
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.records.payments import payment_record
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

RULE = count_rule(limit=1, windowSeconds=60)
SLOW_CLOCK_MS = 3_600_000
"""How far the clock of one producer is behind."""


def payment(number: int) -> bytes:
    return payment_record(number, now_ms(), payeeId=number)


def alerted(topics: OwnTopics) -> set[int]:
    return {
        json.loads(each.value() or b"")["key"]["payeeId"] for each in read_all(topics.bootstrap, topics.names.alerts)
    }


def quarantined(topics: OwnTopics) -> list[bytes | None]:
    """The reason of each record in quarantine."""
    return [dict(each.headers() or ()).get("reason") for each in read_all(topics.bootstrap, topics.names.quarantine)]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1, id="small batch", marks=pytest.mark.long),
        pytest.param(LARGE_BATCH_TRANSACTIONS + 10, id="large batch"),
    ],
)
def test_no_record_is_evaluated_under_its_producers_time(
    count: int, project: Project, topics: OwnTopics, detectors: DetectorsInTurn, tmp_path: Path
) -> None:
    name, installation = topics.names.transactions, Installation.make(tmp_path, project, topics)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(RULE).encode()])
    detectors.begin(installation)
    detectors.wait_ready()
    produce(topics.bootstrap, name, [payment(1)])
    until(lambda: alerted(topics) == {1}, "the first payment is evaluated")

    date_by_producer(topics, name)
    with detectors.frozen():
        produce(topics.bootstrap, name, [payment(0)] * count, at_ms=now_ms() - SLOW_CLOCK_MS)
    assert detectors.wait_end() == TopicUnsuitable.exit_code, detectors.said()[-2000:]
    assert f"{name} has message.timestamp.type=CreateTime" in detectors.said()
    assert quarantined(topics) == []

    detectors.begin(installation)
    assert detectors.wait_end() == TopicUnsuitable.exit_code, detectors.said()[-2000:]

    topic_admin.apply(topics.kafka, [each for each in topics.declared if each.name == name])
    detectors.begin(installation)
    detectors.wait_ready()
    produce(topics.bootstrap, name, [payment(2)])
    until(lambda: alerted(topics) == {1, 2}, "the payments with append times are evaluated")
    assert quarantined(topics) == [UNTIMED.encode()] * count
    assert detectors.stop() == 0

    recorded = record_run(topics.kafka, installation.settings, TransactionSchema.load(installation.schema))
    assert [each.append_ms for each in recorded.transactions].count(NO_APPEND_TIME) == count

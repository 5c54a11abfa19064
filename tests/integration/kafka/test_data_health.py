"""The figures of the hours that a running detector writes, and that a further start continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.logs.data_health import HOUR_MS, HealthHour, read_hours
from fraud_rules.monitoring.data_health import data_health
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RULE = count_rule(limit=2, windowSeconds=60)


def payment(number: int, **members: Any) -> bytes:
    return json.dumps(
        {
            "transactionId": number, "eventTime": now_ms(), "payeeId": number % 10, "beneficiaryId": 2,
            "paymentType": "CSH", "paymentAmount": 1, **members,
        }
    ).encode()  # fmt: skip


def total(installation: Installation, member: str) -> int:
    return sum(getattr(each, member) for each in hours_of(installation))


def hours_of(installation: Installation) -> list[HealthHour]:
    """The hours so far: the test can run over the end of an hour."""
    return read_hours(installation.topics.kafka, installation.settings, now_ms()) or []


@pytest.mark.parametrize("count", [10, LARGE_BATCH_TRANSACTIONS], ids=["small", "large"])
def test_a_detector_keeps_the_health_of_the_payments(
    project: Project, topics: OwnTopics, detectors: DetectorsInTurn, tmp_path: Path, count: int
) -> None:
    installation = Installation.make(tmp_path, project, topics, tick_ms=1_000)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(RULE).encode()])
    detectors.begin(installation)
    detectors.wait_ready()
    seconds = payment(count, eventTime=now_ms() // 1_000)
    twice = [payment(1, eventTime=5_000 + now_ms()), payment(1, eventTime=6_000 + now_ms())]
    records = [*map(payment, range(10, 10 + count)), payment(3, paymentType="WIR", ingestionTimestamp=1), *twice]
    produce(topics.bootstrap, topics.names.transactions, [*records, seconds, b"{"], partition=0)
    until(lambda: total(installation, "rows") == count + 3, "all payments are counted")
    assert detectors.stop() == 0

    first = hours_of(installation)
    assert sum(each.quarantined_records for each in first) == 2
    assert total(installation, "conflicting_duplicates") == total(installation, "duplicates") == 1
    shown = data_health(first, ("ingestionTimestamp", "paymentType"), now_ms())
    assert [(each.name, each.nulls) for each in shown.fields] == [("ingestionTimestamp", count + 2), ("paymentType", 0)]
    assert (
        "looks like seconds: set `unit: s`" in {each.reason: each.detail for each in shown.reasons}["past_event_time"]
    )
    assert sum(each.texts["paymentType"].get("WIR", 0) for each in first if each.texts.get("paymentType")) == 1

    detectors.begin(installation)
    detectors.wait_ready()
    produce(topics.bootstrap, topics.names.transactions, [payment(5)], partition=0)
    until(lambda: total(installation, "rows") == count + 4, "the start continues the hours")
    assert detectors.stop() == 0
    assert all(each.hour % HOUR_MS == 0 for each in hours_of(installation))
    for each in installation.progress():
        assert each.mode is not None
        assert each.mode.large == (each.rows + each.quarantined >= LARGE_BATCH_TRANSACTIONS)
        assert each.time is not None
        assert each.mode.since <= each.time

"""The figures of the hours that a running detector writes, and that a further start continues.

The test is long: `streams/test_origins` counts the payments of a running detector, and `unit/stream/test_data_health`
has each figure and the further start.
"""

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
from tests.support.records.payments import payment_record
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

RULE = count_rule(limit=2, windowSeconds=60)


def payment(number: int, **members: Any) -> bytes:
    return payment_record(number, now_ms(), payeeId=number % 10, **members)


def total(installation: Installation, member: str) -> int:
    return sum(getattr(each, member) for each in hours_of(installation))


def hours_of(installation: Installation) -> list[HealthHour]:
    """The hours so far: the test can run over the end of an hour."""
    return read_hours(installation.topics.kafka, installation.settings, now_ms()) or []


def test_a_detector_keeps_the_health_of_the_payments_in_small_and_large_batches(
    project: Project, topics: OwnTopics, detectors: DetectorsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics, tick_ms=1_000)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(RULE).encode()])
    rows = 0
    for starts, count in enumerate((10, LARGE_BATCH_TRANSACTIONS), 1):
        detectors.begin(installation)
        detectors.wait_ready()
        produce(topics.bootstrap, topics.names.transactions, records(10_000 * starts, count), partition=0)
        rows += count + 3
        until(lambda expected=rows: total(installation, "rows") == expected, "all payments are counted")
        assert detectors.stop() == 0
        check(installation, rows, starts)
    for each in installation.progress():
        assert each.mode is not None
        assert each.mode.large == (each.rows + each.quarantined >= LARGE_BATCH_TRANSACTIONS)
        assert each.time is not None
        assert each.mode.since <= each.time


def records(first: int, count: int) -> list[bytes]:
    """So many payments, one without a gap in its fields, two of one id, and two unreadable records."""
    twice = [payment(first, eventTime=later_ms + now_ms()) for later_ms in (5_000, 6_000)]
    wire = payment(first + 1, paymentType="WIR", ingestionTimestamp=1)
    seconds = payment(first + 2, eventTime=now_ms() // 1_000)
    return [*map(payment, range(first + 3, first + 3 + count)), wire, *twice, seconds, b"{"]


def check(installation: Installation, rows: int, times: int) -> None:
    """Check the figures after so many rows, which have all `records` so many times."""
    found = hours_of(installation)
    assert all(each.hour % HOUR_MS == 0 for each in found)
    assert sum(each.quarantined_records for each in found) == 2 * times
    assert total(installation, "conflicting_duplicates") == total(installation, "duplicates") == times
    shown = data_health(found, ("ingestionTimestamp", "paymentType"), now_ms())
    nulls = [("ingestionTimestamp", rows - times), ("paymentType", 0)]
    assert [(each.name, each.nulls) for each in shown.fields] == nulls
    details = {each.reason: each.detail for each in shown.reasons}
    assert "looks like seconds: set `unit: s`" in details["past_event_time"]
    assert sum(each.texts["paymentType"].get("WIR", 0) for each in found if each.texts.get("paymentType")) == times

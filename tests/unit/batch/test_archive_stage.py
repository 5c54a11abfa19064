"""The archive's stage without Spark: unreadable records are omitted, counted and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.stage import ArchiveStage
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.records.payments import payment_record
from tests.support.records.unreadable_alerts import UNREADABLE

DAY = Day.parse("2026-11-18")
ALERT: dict[str, Any] = {
    "alertId": "a",
    "ruleId": 1,
    "ruleVersion": 0,
    "key": {"payeeId": 1},
    "triggeringEvent": {"transactionId": 7},
    "triggeringValue": "9",
    "windowCount": 1,
    "eventTime": DAY.start_ms,
    "violatedRule": {"name": None},
}
DECISION: dict[str, Any] = {"transactionId": 7, "eventTime": DAY.start_ms, "score": 60}
CORRECTION: dict[str, Any] = {"kind": "RETRACTED", "alertId": "a", "eventTime": DAY.start_ms}


def records_of(topic: str, records: list[tuple[bytes | None, bytes | None]]) -> list[tuple[str, list[Message]]]:
    made = [message(topic, offset, key, value) for offset, (key, value) in enumerate(records)]
    return [(topic, made)]


def message(topic: str, offset: int, key: bytes | None, value: bytes | None, *, is_append: bool = True) -> Message:
    kind = TIMESTAMP_LOG_APPEND_TIME if is_append else TIMESTAMP_CREATE_TIME
    return Message(topic, 0, offset, key, value, None, None, (kind, DAY.start_ms))


def stage_of(store: ArchiveStore, topic: str, table: Table) -> ArchiveStage:
    settings = DetectorSettings(topics=TopicNames(transactions=topic))
    return ArchiveStage(store, load_schema("default"), settings, {topic: table})


@pytest.mark.parametrize(
    ("table", "good"),
    [
        (Table.ALERTS, ALERT),
        (Table.SHADOW_ALERTS, ALERT),
        (Table.DECISIONS, DECISION),
        (Table.CORRECTIONS, CORRECTION),
    ],
)
def test_unreadable_records_are_left_out_counted_and_named(table: Table, good: dict[str, Any], tmp_path: Path) -> None:
    first, second = json.dumps(good).encode(), json.dumps({**good, "memberOfTomorrow": [1]}).encode()
    records = [(b"a", first), *((b"a", value) for value in UNREADABLE), (None, first), (b"b", second)]
    store = ArchiveStore(tmp_path)
    written = stage_of(store, "published", table).archive(records_of("published", records))

    assert read_log(store, list(written.files)).column("value").to_pylist() == [first, second]
    assert written.unreadable == len(UNREADABLE) + 1
    assert written.skipped[0].startswith("published-0 at offset 1: ")
    assert written.skipped[-1] == f"published-0 at offset {len(UNREADABLE) + 1}: ValueError: no key"


def test_a_batch_of_nothing_but_unreadable_records_writes_no_file(tmp_path: Path) -> None:
    stage = stage_of(ArchiveStore(tmp_path), "alerts", Table.ALERTS)
    written = stage.archive(records_of("alerts", [(b"a", value) for value in UNREADABLE]))
    assert (written.files, written.unreadable) == ((), len(UNREADABLE))


def test_a_payment_without_an_append_time_is_left_out_as_in_the_detector(tmp_path: Path) -> None:
    """The nightly job would announce an alert for a payment that the detector has quarantined."""
    stage = stage_of(ArchiveStore(tmp_path), "tx", Table.TRANSACTIONS)
    value = payment_record(7, DAY.start_ms)
    records = [message("tx", 0, None, value, is_append=False), message("tx", 1, None, value)]
    written = stage.archive([("tx", records)])

    assert [file.rows for file in written.files] == [1]
    assert (written.rejected, written.first_append_ms) == (1, DAY.start_ms)


@pytest.mark.parametrize("table", [Table.ALERTS, Table.SHADOW_ALERTS, Table.DECISIONS, Table.CORRECTIONS])
@pytest.mark.parametrize("event_ms", [-62_135_596_800_000, -1], ids=["year 1", "just before 1970"])
def test_a_record_of_a_time_before_1970_belongs_to_its_day(table: Table, event_ms: int, tmp_path: Path) -> None:
    """The nightly job would announce an alert that the archive lacks as a new one."""
    documents = {Table.DECISIONS: DECISION, Table.CORRECTIONS: CORRECTION}
    value = json.dumps({**documents.get(table, ALERT), "eventTime": event_ms}).encode()
    store = ArchiveStore(tmp_path)
    written = stage_of(store, "published", table).archive(records_of("published", [(b"a", value)]))
    store.commit(Manifest().with_batch({}, written))
    published = PublishedAlerts.archived(store, store.latest(), Day.of(event_ms))
    assert written.unreadable == 0 and [file.day for file in written.files] == [Day.of(event_ms).number]
    assert [*published.live, *published.shadow, *published.corrected] == ([] if table is Table.DECISIONS else ["a"])

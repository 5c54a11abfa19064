"""The report about an entity, from a real topic, an archive and a process of the pool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_control.domain.errors import Invalid
from fraud_control.service.reading.entities import EntityReporter
from fraud_control.service.reading.pool import ReadingPool
from fraud_rules.batch.archive.files import write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, Manifest
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.entity.answer import EntitySource
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.model.day import Day
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.web.server import RULE
from tests.support.kafka.own_topics import OwnTopics
from tests.support.records.payments import payment_record

pytestmark = pytest.mark.timeout(240)
HOUR_MS = 3_600_000
PAYER = 4_242


def payment(number: int, event_ms: int, payer: int = PAYER) -> bytes:
    return payment_record(number, event_ms, payeeId=payer, beneficiaryId=7 + number % 2, paymentAmount=5.25)


@pytest.fixture(scope="module")
def pool() -> Iterator[ReadingPool]:
    """The processes that read for all tests."""
    with ReadingPool() as pool:
        yield pool


def reporter(pool: ReadingPool, topics: OwnTopics, project: Project, archive: Path) -> EntityReporter:
    settings = replace(DetectorSettings.load(project.config / "detector.yaml", {}), topics=topics.names)
    schema = TransactionSchema.load(project.config / "schema.yaml")
    return EntityReporter(pool, EntitySource(topics.kafka, archive, schema, settings), now_ms)


def asked(reporter: EntityReporter, value: object = PAYER, days: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reporter.report("payeeId", str(value), days))
    return found


def archive_of(project: Project, folder: Path, topic: str, values: list[bytes], append_ms: int, end: int) -> None:
    """An archive with these payments, which has read the first `end` offsets of partition 0."""
    schema, store = TransactionSchema.load(project.config / "schema.yaml"), ArchiveStore(folder)
    count = len(values)
    batch = decode_transactions(
        RawTransactions.of(values, [1] * count, list(range(count)), [append_ms] * count), schema, RecordLimits(HOUR_MS)
    ).batch
    entry = write_transactions(store, Day.of(append_ms), batch, schema)
    result = BatchResult((entry,), 0, append_ms)
    store.commit(Manifest().with_batch({topic: {"0": end, "1": count}}, result))


def test_the_report_has_the_payments_of_archive_and_topic(
    pool: ReadingPool, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    began_ms = now_ms()
    rule = {**RULE, "ruleId": 5, "name": "Sum of a day", "ruleState": "ACTIVE", "windowMinutes": 1_440, "limit": 100}
    append_records(topics.kafka, topics.names.rules, [(b"5", json.dumps(rule).encode())])
    name = topics.names.transactions
    old = [payment(number, began_ms - 26 * HOUR_MS) for number in range(3)]
    append_records(topics.kafka, name, [(b"k", payment(8, began_ms, 99)), (b"k", b"no payment of 4242")])
    append_records(topics.kafka, name, [(b"k", payment(number, began_ms)) for number in (10, 11, 12, 12)])
    restriction = {"key": {"payeeId": PAYER}, "since": began_ms, "alertId": "a", "ruleId": 5}
    other = {**restriction, "key": {"payeeId": 99, "beneficiaryId": PAYER}, "alertId": "b"}
    ended = {**restriction, "alertId": "c", "lifted": began_ms + 1, "liftedBy": "RETRACTED"}
    records = [{**restriction, "alertId": "c", "since": began_ms + 1}, ended, other, {"key": PAYER}, restriction]
    append_records(topics.kafka, topics.names.restrictions, [(b"k", json.dumps(each).encode()) for each in records])
    without = reporter(pool, topics, project, tmp_path / "archive")
    found = asked(without)
    assert [(each["alertId"], each["lifted"]) for each in found["restrictions"]] == [("a", None), ("c", began_ms + 1)]
    assert [each["transactionId"] for each in found["payments"]] == [12, 12, 11, 10]
    assert found["notes"] == []
    assert [(each["ruleId"], each["value"], each["share"]) for each in found["aggregates"]] == [(5, "15.75", 0.1575)]
    assert [(each["value"], each["count"]) for each in found["counterparties"]] == [(7, 3), (8, 1)]
    assert asked(without, 77)["count"] == 0
    for field, value in (("paymentAmount", "5"), ("nothing", "5"), ("payeeId", "x"), ("transactionId", "5")):
        with pytest.raises(Invalid):
            without.report(field, value, 2)
    archive_of(project, tmp_path / "archive", name, old, began_ms - 26 * HOUR_MS, 0)
    both = reporter(pool, topics, project, tmp_path / "archive")
    assert [each["transactionId"] for each in asked(both)["payments"]] == [12, 12, 11, 10, 2, 1, 0]
    assert "The archive begins later than the chosen period." in asked(both, days=30)["notes"]


def test_a_recreated_topic_is_read_whole_and_named(
    pool: ReadingPool, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """The archive has read further than the topic now reaches, with other payments at the same offsets."""
    began_ms = now_ms()
    name = topics.names.transactions
    append_records(topics.kafka, name, [(b"k", payment(number, began_ms)) for number in (10, 11)])
    old = [payment(number, began_ms - HOUR_MS) for number in range(3)]
    archive_of(project, tmp_path / "archive", name, old, began_ms - HOUR_MS, 5_000)
    found = asked(reporter(pool, topics, project, tmp_path / "archive"))
    assert [each["transactionId"] for each in found["payments"]] == [11, 10, 2, 1, 0]
    assert "The archive is ahead of the topic: it has payments of an earlier topic of the same name." in found["notes"]

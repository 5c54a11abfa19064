"""Records of other programs in the logs of the nights: skipped and logged, and the rest is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.batch.archive.manifest import BatchResult, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.batch.reevaluation.published import PublishedAlerts, add_alert, add_correction
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.nightly.archived import _progress
from tests.support.nightly.cuts import evaluated_ends
from tests.support.nightly.log_files import write_log

DAY = Day.parse("2026-11-18")
UNREADABLE = [
    None,
    b"",
    b"\xff",
    b'{"ruleId": 1,',
    b"null",
    b"17",
    b"{}",
    b"[" * 100_000,
    b'{"eventTime":1E+9999999999}',
]
ALERT: dict[str, Any] = {
    "alertId": "good", "ruleId": 1, "ruleVersion": 0, "key": {"payeeId": 1}, "triggeringEvent": {"transactionId": 7},
    "triggeringValue": "5", "windowCount": 1, "eventTime": DAY.start_ms, "violatedRule": {},
}  # fmt: skip
HALF = [{**ALERT, "triggeringEvent": {}}, {**ALERT, "triggeringEvent": {"transactionId": [1]}}]
LATER = {"kind": "LATER", "alertId": "later", "eventTime": DAY.start_ms}


@pytest.fixture
def store(tmp_path: Path) -> ArchiveStore:
    store = ArchiveStore(tmp_path)
    correction = {"kind": "ADDED", "alertId": "added", "eventTime": DAY.start_ms, "alert": ALERT}
    logs = {
        Table.ALERTS: [*map(json.dumps, (*HALF, ALERT))],
        Table.CORRECTIONS: [*map(json.dumps, (LATER, {**correction, "alertId": "half", "alert": HALF[0]}, correction))],
        Table.PROGRESS: [_progress(0, {"0": 5}, 0, ()).decode()],
    }
    files = [_write(store, table, [*UNREADABLE, *(each.encode() for each in good)]) for table, good in logs.items()]
    store.commit(Manifest().with_batch({}, BatchResult(tuple(files), 0)))
    return store


def _write(store: ArchiveStore, table: Table, values: list[bytes | None]) -> Any:
    keys = [b"detector" if table is Table.PROGRESS else b"\xff%d" % i for i in range(len(values))]
    return write_log(store, table, DAY, [(i, DAY.start_ms, keys[i], value) for i, value in enumerate(values)])


def test_published_alerts_and_corrections_are_read_past_unreadable_records(
    store: ArchiveStore, caplog: pytest.LogCaptureFixture
) -> None:
    published = PublishedAlerts.archived(store, store.latest(), DAY)
    assert list(published.live.values()) == [json.dumps(ALERT).encode()]
    assert (list(published.corrected), list(published.added)) == (["half", "added"], ["added"])
    assert len(caplog.records) > 15
    for value in UNREADABLE:
        add_alert({DAY: published}, value or b"", "bad", shadow=False)
        add_correction({DAY: published}, value or b"")
    assert "bad" not in published.live


def test_batches_are_read_past_unreadable_records(store: ArchiveStore) -> None:
    evidence = ArchivedLogs(store, store.latest(), load_schema("default"), DetectorSettings())
    evaluated = evidence.evaluated().ends
    assert evaluated == evaluated_ends(evidence.cuts(DAY, DAY, evaluated)) == {0: 5}

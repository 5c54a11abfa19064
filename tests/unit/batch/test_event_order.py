"""Records of any files in the order of their event times, without holding them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from fraud_rules.batch import event_order
from fraud_rules.batch.event_order import OrderedHistory
from fraud_rules.codec.history.record import HistoryRecord
from fraud_rules.configuration.settings import DetectorSettings
from tests.support.conformance import load_schema
from tests.support.records.payments import payment_record


def lines(values: list[bytes]) -> list[HistoryRecord]:
    return [HistoryRecord(number, value) for number, value in enumerate(values, 1)]


@pytest.mark.parametrize("run_records", [1, 7, 1_000])
def test_records_come_in_the_order_of_event_time_and_then_of_the_files(
    run_records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_order, "RUN_RECORDS", run_records)
    rows = [payment_record(number, 1_000 + number // 2) for number in range(60)]
    shuffled = random.Random(5).sample(rows, len(rows))
    history = OrderedHistory(tmp_path, load_schema("default"), DetectorSettings(event_time_floor_ms=0), 2**42)
    history.add("a", lines(shuffled[:25]))
    history.add("b", lines(shuffled[25:]))
    expected = sorted(shuffled, key=lambda each: json.loads(each)["eventTime"])
    assert [row[2] for row in history.rows()] == expected
    assert [row[2] for row in history.rows()] == expected, "it can be read again"
    assert (history.records, history.first_ms, history.last_ms) == (60, 1_000, 1_029)


@pytest.mark.parametrize("run_records", [1, 1_000])
def test_an_unreadable_record_stays_behind_the_previous_transaction(
    run_records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_order, "RUN_RECORDS", run_records)
    history = OrderedHistory(tmp_path, load_schema("default"), DetectorSettings(event_time_floor_ms=0), 2**42)
    first, second, third = payment_record(1, 100), payment_record(2, 200), payment_record(3, 50)
    history.add("a", lines([first, b"after 100", second, b"after 200", third]))
    assert [row[2] for row in history.rows()] == [third, first, b"after 100", second, b"after 200"]
    assert history.rejected.counts.total() == 2

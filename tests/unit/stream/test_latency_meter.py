"""The average latency of every ten seconds."""

from __future__ import annotations

from fraud_rules.stream.driver.latency_meter import LatencyMeter


def test_the_average_is_taken_ten_seconds_after_its_first_latency() -> None:
    meter = LatencyMeter()
    meter.add(2, 900 + 950, 1_000)  # 100 and 50 ms
    meter.add(1, 5_000, 5_400)  # 400 ms
    assert meter.due_average(10_999) is None
    assert meter.due_average(11_000) == "183.3"
    assert meter.due_average(30_000) is None, "each latency counts once"


def test_ten_seconds_begin_with_the_next_transaction() -> None:
    meter = LatencyMeter()
    meter.add(1, 0, 100)
    assert meter.due_average(10_100) == "100.0"
    meter.add(1, 19_990, 20_000)
    assert meter.due_average(29_999) is None
    assert meter.due_average(30_000) == "10.0"


def test_no_transactions_have_no_average() -> None:
    meter = LatencyMeter()
    meter.add(0, 0, 1_000)
    assert meter.due_average(100_000) is None

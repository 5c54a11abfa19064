"""The average latency of every ten seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from fraud_rules.stream.driver.latency_meter import LatencyMeter


@dataclass
class Clocks:
    """A meter, and the time of its steady clock."""

    steady_ms: int = 0
    meter: LatencyMeter = field(init=False)

    def __post_init__(self) -> None:
        self.meter = LatencyMeter(lambda: self.steady_ms)

    def average_at(self, steady_ms: int) -> str | None:
        self.steady_ms = steady_ms
        return self.meter.due_average()


def test_the_average_is_taken_ten_seconds_after_its_first_latency() -> None:
    clocks = Clocks()
    clocks.meter.add(2, 900 + 950, 1_000)  # 100 and 50 ms
    clocks.meter.add(1, 5_000, 5_400)  # 400 ms
    assert clocks.average_at(9_999) is None
    assert clocks.average_at(10_000) == "183.3"
    assert clocks.average_at(30_000) is None, "each latency counts once"


def test_ten_seconds_begin_with_the_next_transaction() -> None:
    clocks = Clocks()
    clocks.meter.add(1, 0, 100)
    assert clocks.average_at(10_000) == "100.0"
    clocks.steady_ms = 20_000
    clocks.meter.add(1, 19_990, 20_000)
    assert clocks.average_at(29_999) is None
    assert clocks.average_at(30_000) == "10.0"


def test_the_average_is_due_although_the_time_of_day_is_set_back() -> None:
    clocks = Clocks()
    clocks.meter.add(1, 3_600_000 - 100, 3_600_000)
    clocks.meter.add(1, 0, 300)
    assert clocks.average_at(10_000) == "200.0"


def test_no_transactions_have_no_average() -> None:
    clocks = Clocks()
    clocks.meter.add(0, 0, 1_000)
    assert clocks.average_at(100_000) is None

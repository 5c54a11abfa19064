"""The ticker continues after any error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fraud_rules.stream.driver.ticker import Ticker
from tests.support.waiting import until


class Ticks:
    """Fails once, after the tick of the start."""

    def __init__(self) -> None:
        self.count = 0

    def tick(self) -> None:
        self.count += 1
        if self.count == 2:
            raise BufferError("the queue is full")


class Ends:
    """Fails once, then knows two partitions."""

    def __init__(self) -> None:
        self.looks = 0

    def partitions(self, topic: str) -> Sequence[int]:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("an error that nobody expects")
        return [0, 1]

    def written(self, places: Mapping[str, Sequence[int]]) -> dict[str, dict[str, int]]:
        return {topic: {str(each): 10 + each for each in numbers} for topic, numbers in places.items()}


def test_an_unexpected_error_does_not_end_the_ticker() -> None:
    ticks = Ticks()
    ticker = Ticker(ticks, Ends(), "transactions", tick_ms=100)  # type: ignore[arg-type]
    ticker.start()
    try:
        until(lambda: ticks.count >= 4, "it ticks again after a failure", 30.0)
        assert until(lambda: ticker.lag({"0": 4}), "it knows the lag after a failure", 30.0) == 6 + 11
    finally:
        ticker.stop()

"""The meter of the lag continues after any error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fraud_rules.stream.driver import lag_meter
from fraud_rules.stream.driver.lag_meter import LagMeter
from tests.support.waiting import until


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


def test_an_unexpected_error_does_not_end_the_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_meter, "_POLL_S", 0.01)
    meter = LagMeter(Ends(), "transactions")  # type: ignore[arg-type]
    meter.start()
    try:
        assert until(lambda: meter.lag({"0": 4}), "it knows the lag after a failure") == 6 + 11
    finally:
        meter.stop()

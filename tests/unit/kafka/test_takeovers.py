from __future__ import annotations

import pytest

from fraud_rules.kafka.takeovers import MOST_TAKEOVERS, Takeovers

HOUR_S = 3_600.0


@pytest.mark.parametrize(("every_s", "ends"), [(1.0, True), (5 * HOUR_S, True), (7 * HOUR_S, False)])
def test_a_process_ends_after_the_most_takeovers_of_a_day(every_s: float, ends: bool) -> None:
    times = iter(every_s * number for number in range(2 * MOST_TAKEOVERS))
    takeovers = Takeovers(lambda: next(times))
    assert not any(takeovers.count() for _ in range(MOST_TAKEOVERS - 1))
    assert takeovers.count() is ends

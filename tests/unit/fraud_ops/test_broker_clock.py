"""The broker's time, derived from its records on a host with a wrong clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from fraud_ops.verdicts.broker_clock import BrokerClock, detector_skew_ms
from tests.support.operations.observations import progress

BROKER_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


@dataclass
class Host:
    """A host whose wall clock is `ahead_ms` of the broker's. Only the test advances the time."""

    ahead_ms: int
    passed_ms: int = 0
    clock: BrokerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = BrokerClock(lambda: BROKER_MS + self.passed_ms + self.ahead_ms, lambda: 5_000 + self.passed_ms)

    def wait(self, seconds: float) -> None:
        self.passed_ms += int(seconds * 1_000)

    def observe(self, *ages_s: float) -> int:
        """Read records of these ages and return the estimated error of the clock in ms."""
        self.clock.add_append_times(BROKER_MS + self.passed_ms - int(age_s * 1_000) for age_s in ages_s)
        return self.clock.now_ms() - BROKER_MS - self.passed_ms


AHEAD_AND_BEHIND = pytest.mark.parametrize("ahead_ms", [-HOUR_MS, -40_000, 0, 40_000, HOUR_MS])


@AHEAD_AND_BEHIND
def test_consecutive_observations_need_no_wall_clock(ahead_ms: int) -> None:
    host = Host(ahead_ms)
    host.observe(7_000)
    host.wait(2)
    assert host.observe(1.5, 0.5) == -500
    assert host.clock.skew_ms() == ahead_ms + 500
    host.wait(2)
    assert host.observe(1.9) == -500, "the better bound stays"
    host.wait(10)
    assert host.observe() == -500, "time passes while nothing is read"


@AHEAD_AND_BEHIND
def test_the_first_observation_uses_this_installations_own_record(ahead_ms: int) -> None:
    host = Host(ahead_ms)
    host.clock.calibrate(BROKER_MS - HOUR_MS + 300, BROKER_MS - HOUR_MS + ahead_ms)
    assert host.observe(600, 900) == 300
    assert host.clock.skew_ms() == ahead_ms - 300


def test_without_a_note_the_wall_clock_counts_but_never_before_the_newest_record() -> None:
    ahead, behind = Host(HOUR_MS), Host(-HOUR_MS)
    assert (ahead.observe(5), ahead.clock.skew_ms()) == (HOUR_MS, None)
    assert (behind.observe(5), behind.clock.skew_ms()) == (-5_000, 5_000 - HOUR_MS)


def test_records_read_after_a_pause_may_be_old() -> None:
    host = Host(-HOUR_MS)
    host.observe(1)
    host.wait(1)
    assert host.observe(0) == 0
    host.wait(1_800)
    assert host.observe(1_700) == 0
    host.wait(2)
    assert host.observe(0.1) == -100


def test_a_broker_whose_clock_was_set_back_is_followed() -> None:
    host = Host(0)
    host.observe(0)
    for _ in range(70):
        host.wait(1)
        host.observe(20)
    assert host.observe(20) == -20_000


@AHEAD_AND_BEHIND
def test_the_detectors_records_show_its_own_clock(ahead_ms: int) -> None:
    batches = [
        (at_ms, msgspec.structs.replace(progress(), time=None if age_ms is None else at_ms - age_ms + ahead_ms))
        for at_ms, age_ms in ((BROKER_MS, -500), (BROKER_MS + 60_001, 4_000), (BROKER_MS + 61_000, 7), (HOUR_MS, None))
    ]
    assert detector_skew_ms(batches[:3]) == ahead_ms - 7, "the second record took four seconds to be written"
    assert detector_skew_ms(batches[:2]) == ahead_ms - 4_000, "the first one is older than a minute"
    assert detector_skew_ms(batches[3:]) is None, "an earlier release wrote it"
    assert detector_skew_ms([]) is None

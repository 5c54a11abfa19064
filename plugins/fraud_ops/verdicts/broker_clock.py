"""Estimates the broker's time from the append times of records, because the clock of a host may be wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from fraud_rules.logs.detector_status import BatchProgress

_GAP_MS = 15_000
_KEPT_MS = 60_000


class BrokerClock:
    """The estimate of one `DetectorObserver`.

    A record is appended before it is read. So its append time minus the monotonic time at the read is a lower bound of
    the difference between the two clocks. Agents and supervisors write every few seconds. So between two consecutive
    observations the largest of these bounds is accurate to about a second.

    Records of the first observation, or after a long pause, may have any age. Until newer records arrive, the estimate
    is the wall clock of this host, corrected by the difference from `calibrate`, and at least the newest append time.
    """

    def __init__(self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._observed_ms: int | None = None
        self._bounds: deque[tuple[int, int]] = deque()
        self._floor_ms: int | None = None
        self._difference_ms: int | None = None

    def add_append_times(self, append_times_ms: Iterable[int]) -> None:
        """Use the append times of the records that one observation read."""
        now_ms, newest_ms = self._monotonic_ms(), max(append_times_ms, default=None)
        follows = self._observed_ms is not None and now_ms - self._observed_ms <= _GAP_MS
        self._observed_ms = now_ms
        if newest_ms is None:
            return
        bound_ms = newest_ms - now_ms
        if not follows:
            self._floor_ms = bound_ms if self._floor_ms is None else max(self._floor_ms, bound_ms)
            return
        self._bounds.append((now_ms, bound_ms))
        while self._bounds[0][0] < now_ms - _KEPT_MS:
            self._bounds.popleft()

    def calibrate(self, append_ms: int, wall_ms: int) -> None:
        """Use a record of this installation: appended at `append_ms` when its wall clock showed `wall_ms`."""
        self._difference_ms = append_ms - wall_ms

    def now_ms(self) -> int:
        """The broker's time, in epoch ms."""
        if self._bounds:
            return max(bound for _, bound in self._bounds) + self._monotonic_ms()
        corrected_ms = self._wall_ms() + (self._difference_ms or 0)
        return corrected_ms if self._floor_ms is None else max(corrected_ms, self._floor_ms + self._monotonic_ms())

    def skew_ms(self) -> int | None:
        """How far the wall clock is ahead of the broker's, negative if it is behind; None if unknown."""
        ahead_ms = self._wall_ms() - self.now_ms()
        known = self._bounds or self._difference_ms is not None or ahead_ms < 0
        return ahead_ms if known else None


def detector_skew_ms(progress: Sequence[tuple[int, BatchProgress]]) -> int | None:
    """How far the detector's clock is ahead of the broker's, negative if it is behind; None if unknown.

    `progress` has the records with their append times, in order. A record shows the detector's clock some time before
    it is appended. So each is a lower bound, and the best bound of the last minute counts.
    """
    best_ms: int | None = None
    for append_ms, batch in reversed(progress):
        if append_ms < progress[-1][0] - _KEPT_MS:
            break
        if batch.time is not None:
            best_ms = batch.time - append_ms if best_ms is None else max(best_ms, batch.time - append_ms)
    return best_ms

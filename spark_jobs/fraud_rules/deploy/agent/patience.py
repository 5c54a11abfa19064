"""Detects whether long work still makes progress, by its reports and by its use of CPU time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import MS_PER_S, SteadyClock

_BUSY_SHARE: Final = 1 / 30
"""The share of one core that counts as progress. Threads that only wait for a broker use a hundredth of a core. A
process that competes with twenty others for two cores still gets a tenth."""

_LONGEST: Final = 20
"""The number of limits after which a process is given up even if it uses the CPU."""

_POLL_MS: Final = 2_000


@dataclass(slots=True)
class Patience:
    """The patience with one piece of work that began at `began_ms`. It is over after `limit_ms` without progress.

    `began_ms` and `moved_ms`, the time of the last progress, are for reports (epoch ms). The limits use `steady_ms`.
    """

    began_ms: int
    limit_ms: int
    steady_ms: SteadyClock = clock.steady_ms
    moved_ms: int = 0
    cpu_s: float = 0.0
    _reported: object = None
    _mark_s: float = 0.0
    _began: int = 0
    _moved: int = 0
    _looked: int | None = None

    def __post_init__(self) -> None:
        self.moved_ms = self.began_ms
        self._began = self._moved = self.steady_ms()

    def is_due(self) -> bool:
        """Whether to measure the CPU time again. Each measurement reads every process of the host."""
        return self._looked is None or self.steady_ms() >= self._looked + _POLL_MS

    def record_cpu(self, cpu_s: float, now_ms: int) -> None:
        """Record the CPU time of the processes. A decrease means that some of them have ended."""
        self._looked = self.steady_ms()
        self.cpu_s = max(self.cpu_s, cpu_s)
        if cpu_s < self._mark_s or cpu_s - self._mark_s >= self.limit_ms / MS_PER_S * _BUSY_SHARE:
            self._mark_s = cpu_s
            self._move(now_ms)

    def record_work(self, what: object, now_ms: int) -> None:
        """Record reported work. A change is progress."""
        if what != self._reported:
            self._reported = what
            self._move(now_ms)

    def is_over(self) -> bool:
        """Whether to give the work up."""
        now = self.steady_ms()
        return now - self._moved > self.limit_ms or now - self._began > _LONGEST * self.limit_ms

    def describe(self, what: str) -> str:
        """Describe the work that was given up, and the time that it had."""
        now = self.steady_ms()
        return (
            f"{what}: given up after {(now - self._began) // MS_PER_S} s, of which the last "
            f"{(now - self._moved) // MS_PER_S} s without progress; it has used {self.cpu_s:.0f} s of CPU time"
        )

    def _move(self, now_ms: int) -> None:
        self.moved_ms, self._moved = now_ms, self.steady_ms()

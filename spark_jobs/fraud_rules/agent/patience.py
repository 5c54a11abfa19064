"""Whether something that takes long still makes progress, by what it reports and by the CPU time it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Patience"]

_BUSY_SHARE: Final = 1 / 30
"""Of one core. Threads that only wait for a broker use a hundredth; a process on a machine with twenty others waiting
for two cores still gets a tenth."""

_LONGEST: Final = 20
"""A process that uses the CPU and never ends is given up after so many limits."""

_LOOK_MS: Final = 2_000
_MS_A_S: Final = 1_000


@dataclass(slots=True)
class Patience:
    """Begins at `began_ms`. Over once nothing has moved for `limit_ms`."""

    began_ms: int
    limit_ms: int
    moved_ms: int = 0
    cpu_s: float = 0.0
    _reported: object = None
    _mark_s: float = 0.0
    _looked_ms: int = 0

    def __post_init__(self) -> None:
        self.moved_ms = self.began_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the CPU time is to be looked up again: that takes a look at each process of the host."""
        return now_ms >= self._looked_ms + _LOOK_MS

    def used(self, cpu_s: float, now_ms: int) -> None:
        """Its processes have used so much CPU time. Less than before means that some of them have ended."""
        self._looked_ms = now_ms
        self.cpu_s = max(self.cpu_s, cpu_s)
        if cpu_s < self._mark_s or cpu_s - self._mark_s >= self.limit_ms / _MS_A_S * _BUSY_SHARE:
            self._mark_s, self.moved_ms = cpu_s, now_ms

    def reported(self, what: object, now_ms: int) -> None:
        """It says what it is working on; a change of that is progress."""
        if what != self._reported:
            self._reported, self.moved_ms = what, now_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether to give up."""
        return now_ms - self.moved_ms > self.limit_ms or now_ms - self.began_ms > _LONGEST * self.limit_ms

    def said(self, what: str, now_ms: int) -> str:
        """What was awaited, and for how long."""
        return (
            f"{what}: given up after {(now_ms - self.began_ms) // _MS_A_S} s, of which the last "
            f"{(now_ms - self.moved_ms) // _MS_A_S} s without progress; it has used {self.cpu_s:.0f} s of CPU time"
        )

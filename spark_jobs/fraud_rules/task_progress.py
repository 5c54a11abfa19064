"""How far a long evaluation has come: the seam between the engine and a process that reports it."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["UNREPORTED", "TaskProgress"]


class TaskProgress(Protocol):
    """Called often, so a call must cost next to nothing."""

    def restored(self, events: int) -> None:
        """So many further events of a state were read back from its log."""

    def evaluated(self, rows: int) -> None:
        """So many further rows were evaluated."""


class _Unreported:
    """Reports nothing."""

    def restored(self, events: int) -> None:
        """See `TaskProgress`."""

    def evaluated(self, rows: int) -> None:
        """See `TaskProgress`."""


UNREPORTED: Final[TaskProgress] = _Unreported()

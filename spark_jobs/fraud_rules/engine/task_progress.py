"""Progress of a long evaluation: the interface between the engine and the process that reports progress."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["UNREPORTED", "TaskProgress"]


class TaskProgress(Protocol):
    """Receives progress. The engine calls it often, so a call must be cheap."""

    def restored(self, events: int) -> None:
        """Count further events that were restored from a state log."""

    def evaluated(self, rows: int) -> None:
        """Count further rows that were evaluated."""


class _Unreported:
    """Ignores all progress."""

    def restored(self, events: int) -> None:
        """See `TaskProgress`."""

    def evaluated(self, rows: int) -> None:
        """See `TaskProgress`."""


UNREPORTED: Final[TaskProgress] = _Unreported()

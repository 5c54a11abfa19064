"""Progress of a long evaluation: the interface between the engine and the process that reports progress."""

from __future__ import annotations

from typing import Final, Protocol


class TaskProgress(Protocol):
    """Receives progress. The engine calls it often, so a call must be cheap."""

    def fetched(self, size_bytes: int) -> None:
        """Count further bytes that were read from the topic of the state."""

    def restored(self, events: int) -> None:
        """Count further events that were restored from a state log."""

    def evaluated(self, rows: int) -> None:
        """Count further rows that were evaluated."""


class _Unreported:
    """Ignores all progress."""

    def fetched(self, size_bytes: int) -> None:
        """See `TaskProgress`."""

    def restored(self, events: int) -> None:
        """See `TaskProgress`."""

    def evaluated(self, rows: int) -> None:
        """See `TaskProgress`."""


UNREPORTED: Final[TaskProgress] = _Unreported()

"""The seam between the checks and the standing alarms in the store."""

from __future__ import annotations

from typing import Protocol

from fraud_ops.alarms import Alarm

__all__ = ["AlarmReports"]


class AlarmReports(Protocol):
    """Takes the state of each alarm and decides what is news, see `AlarmDesk`."""

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        """Report the state of an alarm. With `again`, a standing alarm is sent anew."""

    def open_parts(self, name: str, *, silent_ms: int = 0) -> frozenset[str]:
        """The parts of the open alarms with a name whose last report is that old."""

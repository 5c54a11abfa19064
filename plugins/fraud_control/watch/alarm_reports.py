"""The seam between the checks and the standing alarms in the store."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

from fraud_ops.alarms import Alarm


class AlarmReports(Protocol):
    """Takes the state of each alarm and decides what is news, see `AlarmDesk`."""

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        """Report the state of an alarm. With `again`, a standing alarm is sent anew."""

    def open_parts(self, name: str, *, silent_ms: int = 0) -> frozenset[str]:
        """The parts of the open alarms with a name whose last report is that old."""


def report_standing(
    alarms: AlarmReports, name: str, detector: str, standing: Iterable[tuple[str, str]], ended: str
) -> None:
    """Report all alarms of a name that stand, each with its part and message, and end the others (see `end_others`)."""
    parts = set[str]()
    for part, said in standing:
        parts.add(part)
        alarms.report(Alarm(name, detector, said, resolved=False, part=part))
    end_others(alarms, name, detector, parts, ended)


def end_others(alarms: AlarmReports, name: str, detector: str, standing: AbstractSet[str], ended: str) -> None:
    """End the open alarms of a name about other parts than these. `ended` is the message after the part."""
    for part in sorted(alarms.open_parts(name) - standing):
        alarms.report(Alarm(name, detector, f"{part} {ended}", resolved=True, part=part))

"""The alarms of a test, in memory: only news are kept, as the store does it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fraud_ops.alarms import Alarm

__all__ = ["AlarmMemory"]


@dataclass
class AlarmMemory:
    """`news` has the messages that the store would send."""

    news: list[Alarm] = field(default_factory=list)
    _open: set[tuple[str, str]] = field(default_factory=set)

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        key = alarm.name, alarm.part
        if alarm.resolved is (key in self._open) or again:
            self.news.append(alarm)
        (self._open.discard if alarm.resolved else self._open.add)(key)

    def open_parts(self, name: str, *, silent_ms: int = 0) -> frozenset[str]:
        if silent_ms:
            return frozenset()
        return frozenset(part for known, part in self._open if known == name)

    def briefly(self, since: int = 0) -> list[tuple[str, bool]]:
        """The names of the news from a number on, and whether they are ends."""
        return [(each.name, each.resolved) for each in self.news[since:]]

"""Counts the alerts and decisions of the last day by hour, so that no request scans them. The clock is passed in."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel
from fraud_control.feed.decisions import FeedDecision
from fraud_control.feed.events import FeedAlert
from fraud_rules.runtime.safe_text import scalar_text

HOURS: Final = 24
HOUR_MS: Final = 3_600_000
_MOST_KEYS: Final = 5_000
_MOST_FIELDS: Final = 8
_LISTED: Final = 10


class HourSummary(ReadModel):
    """The alerts of an hour: live alerts by severity (lower case, empty for none), and shadow alerts."""

    at_ms: EpochMs = Field(serialization_alias="time", description="The start of the hour.")
    live: dict[str, int]
    shadow: int


class KeyAlerts(ReadModel):
    """The live alerts about one value of a grouping field."""

    value: str
    alerts: int


class KeyCounts(ReadModel):
    """The values of a grouping field with the most live alerts."""

    field: str
    values: list[KeyAlerts]


@dataclass(frozen=True, slots=True)
class DaySummary:
    """The figures of the last 24 hours, which include the current one. `rules` counts live and shadow alerts by rule,
    the rules with the most alerts first. `since_ms` is the start of the first hour.
    """

    since_ms: int
    hours: Sequence[HourSummary]
    rules: Sequence[tuple[int, int, int]]
    keys: Sequence[KeyCounts]
    decisions: Mapping[str, int]


@dataclass(slots=True)
class _Hour:
    live: Counter[str] = field(default_factory=Counter)
    rules: Counter[int] = field(default_factory=Counter)
    shadow_rules: Counter[int] = field(default_factory=Counter)
    keys: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    decisions: Counter[str] = field(default_factory=Counter)
    ids: set[int] = field(default_factory=set)


class DayFigures:
    """The figures of the last day, in hours of the broker's time. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hours: dict[int, _Hour] = {}

    def add_alert(self, alert: FeedAlert) -> None:
        """Count an alert."""
        facts = alert.facts
        with self._lock:
            hour = self._hour(alert.append_ms)
            if facts.shadow:
                hour.shadow_rules[facts.rule_id] += 1
                return
            hour.ids.add(hash(facts.alert_id))
            hour.live[facts.severity] += 1
            hour.rules[facts.rule_id] += 1
            for name, value in facts.key.items():
                if name in hour.keys or len(hour.keys) < _MOST_FIELDS:
                    hour.keys[name][scalar_text(value)] += 1
                    if len(hour.keys[name]) > 2 * _MOST_KEYS:
                        hour.keys[name] = Counter(dict(hour.keys[name].most_common(_MOST_KEYS)))

    def add_decision(self, decision: FeedDecision) -> None:
        """Count a decision."""
        with self._lock:
            self._hour(decision.append_ms).decisions[decision.outcome] += 1

    def summary(self, now_ms: int) -> DaySummary:
        """Add up the hours."""
        last = now_ms // HOUR_MS
        numbers = range(last - HOURS + 1, last + 1)
        with self._lock:
            hours = {number: self._hours[number] for number in numbers if number in self._hours}
            return DaySummary(
                since_ms=numbers.start * HOUR_MS,
                hours=[_summary_of(number, hours.get(number)) for number in numbers],
                rules=_rules(hours.values()),
                keys=_keys(hours.values()),
                decisions=sum((hour.decisions for hour in hours.values()), Counter()),
            )

    def count_of(self, alert_ids: Iterable[str], now_ms: int) -> int:
        """Count those of the alerts that are live alerts of the last day."""
        since = now_ms // HOUR_MS - HOURS + 1
        with self._lock:
            known = [hour.ids for number, hour in self._hours.items() if number >= since]
            return sum(any(hash(alert_id) in ids for ids in known) for alert_id in alert_ids)

    def _hour(self, append_ms: int) -> _Hour:
        number = append_ms // HOUR_MS
        hour = self._hours.get(number)
        if hour is None:
            hour = self._hours[number] = _Hour()
            for old in sorted(self._hours)[: -HOURS - 1]:
                del self._hours[old]
        return hour


def _summary_of(number: int, hour: _Hour | None) -> HourSummary:
    if hour is None:
        return HourSummary(at_ms=number * HOUR_MS, live={}, shadow=0)
    return HourSummary(at_ms=number * HOUR_MS, live=dict(hour.live), shadow=hour.shadow_rules.total())


def _rules(hours: Iterable[_Hour]) -> list[tuple[int, int, int]]:
    live: Counter[int] = Counter()
    shadow: Counter[int] = Counter()
    for hour in hours:
        live.update(hour.rules)
        shadow.update(hour.shadow_rules)
    both = live + shadow
    return [(rule_id, live[rule_id], shadow[rule_id]) for rule_id, _ in both.most_common(_LISTED)]


def _keys(hours: Iterable[_Hour]) -> list[KeyCounts]:
    by_field: dict[str, Counter[str]] = defaultdict(Counter)
    for hour in hours:
        for name, counts in hour.keys.items():
            by_field[name].update(counts)
    return [
        KeyCounts(
            field=name, values=[KeyAlerts(value=value, alerts=count) for value, count in counts.most_common(_LISTED)]
        )
        for name, counts in sorted(by_field.items())
    ]

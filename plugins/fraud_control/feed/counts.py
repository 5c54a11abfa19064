"""Counts the alerts of each rule by minute. Pure; the clock is passed in."""

from __future__ import annotations

MINUTES = 60
_MINUTE_MS = 60_000
_MOST_RULES = 20_000


class MinuteCounts:
    """The counts of the last hour by rule, in minutes of the broker's time."""

    def __init__(self) -> None:
        self._by_rule: dict[int, dict[int, int]] = {}

    def add(self, rule_id: int, append_ms: int) -> None:
        """Count one alert."""
        minutes = self._by_rule.get(rule_id)
        if minutes is None:
            if len(self._by_rule) >= _MOST_RULES:
                self._by_rule.pop(next(iter(self._by_rule)))
            minutes = self._by_rule[rule_id] = {}
        minute = append_ms // _MINUTE_MS
        minutes[minute] = minutes.get(minute, 0) + 1
        if len(minutes) > MINUTES + 1:
            newest = max(minutes)
            self._by_rule[rule_id] = {each: n for each, n in minutes.items() if each > newest - MINUTES - 1}

    def hour(self, rule_id: int, now_ms: int) -> list[int]:
        """The counts of the last sixty minutes, oldest first, including the current minute."""
        minutes = self._by_rule.get(rule_id, {})
        last = now_ms // _MINUTE_MS
        return [minutes.get(minute, 0) for minute in range(last - MINUTES + 1, last + 1)]

    def rate(self, rule_id: int, now_ms: int) -> float:
        """Estimate the alerts of the last sixty seconds, as if the previous minute's alerts were evenly spread."""
        minutes = self._by_rule.get(rule_id, {})
        minute, into_ms = divmod(now_ms, _MINUTE_MS)
        return minutes.get(minute, 0) + minutes.get(minute - 1, 0) * (1 - into_ms / _MINUTE_MS)

    def rules(self) -> list[int]:
        """List the rules that have alerts."""
        return list(self._by_rule)

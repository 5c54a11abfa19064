"""Adds up the health of the payments and of the rules on the driver, hour by hour, see `logs.data_health`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from fraud_rules.logs.data_health import HOUR_MS, HealthHour, RuleHour
from fraud_rules.logs.detector_status import ReasonCount
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleSet
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.progress import BatchOutputs
from fraud_rules.stream.worker.field_figures import MOST_TEXTS

INTERVAL_MS: Final = 3_000
"""The least time between two records of an hour."""

OTHERS: Final = "others"
MOST_RULES: Final = 1_000
_MOST_NAMES: Final = 200
"""The most groupings, and the most reasons, in an hour. Further ones count as `OTHERS`."""


class HealthMeter:
    """The health of the present hour. It continues the newest of the `hours` that earlier starts have written; `marker`
    is that of the start."""

    def __init__(self, hours: Iterable[HealthHour], marker: Marker) -> None:
        self._hour = max(hours, key=lambda each: each.hour, default=None)
        self._uncounted = 0
        if self._hour is not None and self._hour.query_id == marker.query_id:
            self._uncounted = max(0, marker.batch_id - self._hour.batch_id)
        self._is_written = True
        self._due_ms: int | None = None

    def add(
        self,
        outputs: BatchOutputs,
        groups: Iterable[KeyGroupOutput],
        in_force: RuleSet,
        marker: Marker,
        now_ms: int,
        steady_ms: int,
    ) -> list[HealthHour]:
        """Add a batch with its marker. Return the hours that its transaction must contain, none if none is due.

        `groups` are the newest outputs of all key groups.
        """
        started, ended = now_ms // HOUR_MS * HOUR_MS, None
        hour = self._hour
        if hour is None or hour.hour != started:
            ended = None if self._is_written else hour
            hour, self._due_ms = HealthHour(started, now_ms, now_ms, marker.query_id, marker.batch_id), None
        hour.until, hour.query_id, hour.batch_id = now_ms, marker.query_id, marker.batch_id
        hour.uncounted_batches += self._uncounted
        self._hour, self._uncounted = hour, 0
        _add(hour, outputs)
        self._is_written = self._due_ms is None or steady_ms >= self._due_ms
        if self._is_written:
            self._due_ms = steady_ms + INTERVAL_MS
            hour.keys = _keys(groups)
            for rule_id, each in in_force.rules.items():
                _rule(hour, rule_id).keys = hour.keys.get("&".join(each.rule.grouping), 0)
        return [each for each in (ended, hour if self._is_written else None) if each is not None]


def _add(hour: HealthHour, outputs: BatchOutputs) -> None:
    hour.rows += outputs.rows
    hour.late_transactions += outputs.late
    hour.duplicates += outputs.duplicates
    hour.conflicting_duplicates += outputs.conflicting_duplicates
    hour.null_keys += outputs.null_keys
    for group in outputs.groups:
        _add_rules(hour, group)
    late = ((each.partition, each.offset, each.grouping) for group in outputs.groups for each in group.late)
    for _, _, name in dict.fromkeys(late):  # a transaction can have several late rows in a grouping
        grouping = _known(hour.late, name)
        hour.late[grouping] = hour.late.get(grouping, 0) + 1
    for side in outputs.side_outputs:
        for name, nulls in side.nulls.items():
            hour.nulls[name] = hour.nulls.get(name, 0) + nulls
        for name, counts in side.texts.items():
            hour.texts[name] = _sum(hour.texts.get(name, {}), counts)
    for name, found in outputs.quarantine_reasons.items():
        reason = _known(hour.quarantined, name)
        before = hour.quarantined.get(reason, ReasonCount(0))
        hour.quarantined[reason] = ReasonCount(before.count + found.count, found.detail)


def _add_rules(hour: HealthHour, group: KeyGroupOutput) -> None:
    for matches in group.matches:
        for rule_id, passed, held in zip(matches.rules, matches.passed, matches.held, strict=True):
            rule = _rule(hour, rule_id)
            rule.passed += passed
            rule.held += held
    for alert in group.alerts:
        rule = _rule(hour, alert.rule_id)
        rule.alerts += 1
        rule.last_alert = max(rule.last_alert or 0, alert.append_ms)


def _rule(hour: HealthHour, rule_id: int) -> RuleHour:
    """The figures of a rule. Those of a rule for which there is no room are lost."""
    found = hour.rules.get(rule_id)
    if found is None:
        found = RuleHour()
        if len(hour.rules) < MOST_RULES:
            hour.rules[rule_id] = found
    return found


def _keys(groups: Iterable[KeyGroupOutput]) -> dict[str, int]:
    """The number of keys in state, by grouping."""
    keys: dict[str, int] = {}
    for name, count in (pair for group in groups for pair in group.keys):
        keys[name] = keys.get(name, 0) + count
    return keys


def _known(names: Collection[str], name: str) -> str:
    """The name, or `OTHERS` for a name for which there is no room."""
    return name if name in names or len(names) < _MOST_NAMES else OTHERS


def _sum(known: dict[str, int] | None, added: Mapping[str, int] | None) -> dict[str, int] | None:
    """The sum of two counts by text. None if one is None or there are too many texts."""
    if known is None or added is None:
        return None
    total = {**known, **{text: known.get(text, 0) + count for text, count in added.items()}}
    return total if len(total) <= MOST_TEXTS else None

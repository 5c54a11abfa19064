"""Summarizes the health of the payments and of the rules: the last 24 hours, beside the hours before them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fraud_rules.logs.data_health import HealthHour
from fraud_rules.model.day import DAY_MS
from fraud_rules.monitoring.data_faults import DataFault, data_faults

_MOST_NEW: Final = 20
_MOST_REASONS: Final = 20


class HourRows(msgspec.Struct, frozen=True, rename="camel"):
    """The records that the detector has read in the hour that begins at `time`, see `HealthHour`."""

    time: int
    rows: int
    late: int
    quarantined: int
    duplicates: int
    conflicting_duplicates: int
    null_keys: int
    uncounted_batches: int


class FieldHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The payments of the last 24 hours without a value of a field, and the shares of all payments there and in the
    hours before; None without payments."""

    name: str
    nulls: int
    share: float | None
    share_before: float | None


class ReasonHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The quarantined records of a reason in the last 24 hours, and in the hours before. `since` is the
    start of the first hour of the eight days with such a record, or the detector's start in it. `detail` is that of the
    newest record."""

    reason: str
    count: int
    count_before: int
    since: int
    detail: str


class GroupingHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The late payments of a grouping in the last 24 hours and in the hours before, and its number of keys in state."""

    grouping: str
    late: int
    late_before: int
    keys: int | None


class NewText(msgspec.Struct, frozen=True, rename="camel"):
    """A text of a field that the last 24 hours have, but the hours before have not. `since` is the
    start of its first hour, or the detector's start in it."""

    name: str
    text: str
    count: int
    since: int


class RuleFigures(msgspec.Struct, frozen=True, rename="camel"):
    """A rule in the hours from `since` on: the payments of the detector, those that the rule's filter let through, and
    those at which its `when` held, its alerts and keys (see `RuleHour`), and its faults."""

    since: int | None
    rows: int
    passed: int
    held: int
    alerts: int
    last_alert: int | None
    keys: int
    faults: Sequence[DataFault]


class DataHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The health at `at` by the hours from `since` on, which reach back at most eight days. `since` and `until` are
    None before the first batch."""

    at: int
    since: int | None
    until: int | None
    hours: Sequence[HourRows]
    fields: Sequence[FieldHealth]
    reasons: Sequence[ReasonHealth]
    groupings: Sequence[GroupingHealth]
    new_texts: Sequence[NewText]
    faults: Sequence[DataFault]


def data_health(hours: Sequence[HealthHour], names: Sequence[str], now_ms: int) -> DataHealth:
    """Summarize the hours, which ascend. `names` are the declared fields."""
    day_ms = now_ms - DAY_MS
    day, before = [each for each in hours if each.hour > day_ms], [each for each in hours if each.hour <= day_ms]
    return DataHealth(
        now_ms,
        hours[0].since if hours else None,
        hours[-1].until if hours else None,
        [_rows_of(each) for each in day],
        [_field(name, day, before) for name in names],
        _reasons(day, before),
        _groupings(day, before),
        _new_texts(day, before),
        data_faults(hours, names, now_ms),
    )


def rule_figures(hours: Sequence[HealthHour], rule_id: int, now_ms: int) -> RuleFigures:
    """The figures of a rule. `since` is None if no hour has it. `hours` ascend."""
    having = [each for each in hours if rule_id in each.rules]
    found = [each.rules[rule_id] for each in having]
    return RuleFigures(
        having[0].since if having else None,
        sum(each.rows for each in having),
        sum(each.passed for each in found),
        sum(each.held for each in found),
        sum(each.alerts for each in found),
        max((each.last_alert for each in found if each.last_alert is not None), default=None),
        found[-1].keys if found else 0,
        [each for each in data_faults(hours, (), now_ms) if each.rule_id == rule_id],
    )


def _rows_of(hour: HealthHour) -> HourRows:
    return HourRows(
        hour.hour,
        hour.rows,
        hour.late_transactions,
        hour.quarantined_records,
        hour.duplicates,
        hour.conflicting_duplicates,
        hour.null_keys,
        hour.uncounted_batches,
    )


def _field(name: str, day: Sequence[HealthHour], before: Sequence[HealthHour]) -> FieldHealth:
    return FieldHealth(name, _nulls(name, day), _null_share(name, day), _null_share(name, before))


def _nulls(name: str, hours: Sequence[HealthHour]) -> int:
    return sum(each.nulls.get(name, 0) for each in hours)


def _null_share(name: str, hours: Sequence[HealthHour]) -> float | None:
    rows = sum(each.rows for each in hours)
    return _nulls(name, hours) / rows if rows else None


def _reasons(day: Sequence[HealthHour], before: Sequence[HealthHour]) -> list[ReasonHealth]:
    def count(reason: str, hours: Sequence[HealthHour]) -> int:
        return sum(each.quarantined[reason].count for each in hours if reason in each.quarantined)

    found = []
    for reason in {name for each in day for name in each.quarantined}:
        having = [each for each in (*before, *day) if reason in each.quarantined]
        detail = having[-1].quarantined[reason].detail
        found.append(ReasonHealth(reason, count(reason, day), count(reason, before), having[0].since, detail))
    return sorted(found, key=lambda each: (-each.count, each.reason))[:_MOST_REASONS]


def _groupings(day: Sequence[HealthHour], before: Sequence[HealthHour]) -> list[GroupingHealth]:
    keys = day[-1].keys if day else {}
    names = {name for each in day for name in each.late} | keys.keys()
    return [
        GroupingHealth(
            name,
            sum(each.late.get(name, 0) for each in day),
            sum(each.late.get(name, 0) for each in before),
            keys.get(name),
        )
        for name in sorted(names)
    ]


def _new_texts(day: Sequence[HealthHour], before: Sequence[HealthHour]) -> list[NewText]:
    """The new texts of the fields that have few texts in all hours."""
    found = []
    for name in sorted({name for each in before for name in each.texts}):
        if any(each.texts.get(name, {}) is None for each in (*before, *day)):
            continue
        known = {text for each in before for text in each.texts.get(name) or ()}
        counts: dict[str, int] = {}
        since: dict[str, int] = {}
        for each in day:
            for text, count in (each.texts.get(name) or {}).items():
                if text not in known:
                    counts[text] = counts.get(text, 0) + count
                    since.setdefault(text, each.since)
        newest = sorted(counts, key=lambda text: (-counts[text], text))[:_MOST_NEW]
        found += [NewText(name, text, counts[text], since[text]) for text in newest]
    return found

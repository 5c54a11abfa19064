"""Finds fields that become null, rules that match nothing, and rules whose alert rate has left its range. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import takewhile
from statistics import median
from typing import Final

import msgspec

from fraud_rules.logs.data_health import HOUR_MS, HealthHour
from fraud_rules.model.day import DAY_MS

WEEK_MS: Final = 7 * DAY_MS
NULL_SHARE: Final = 0.5
USUAL_NULL_SHARE: Final = 0.05
RATE_FACTOR: Final = 3
FEWEST_PAYMENTS: Final = 100
"""The fewest payments of an hour that counts."""

FEWEST_ALERTS: Final = 20
"""The fewest alerts of an hour, or the fewest that it should have, for a verdict about a rate."""

FEWEST_HOURS: Final = 24
"""The fewest earlier hours that show what is usual."""


class DataVerdict(StrEnum):
    """The verdicts about payments and rules. Each has a runbook."""

    FIELD_NULL = "FIELD_NULL"
    RULE_UNMATCHED = "RULE_UNMATCHED"
    RULE_RATE = "RULE_RATE"


class DataFault(msgspec.Struct, frozen=True, rename="camel"):
    """A verdict about a field or a rule. Exactly one of `name` (the field) and `rule_id` is set. `since` is the first
    hour of the fault."""

    verdict: DataVerdict
    reason: str
    since: int
    name: str | None = None
    rule_id: int | None = None

    @property
    def part(self) -> str:
        """The field or the rule."""
        return f"field {self.name}" if self.rule_id is None else f"rule {self.rule_id}"


def data_faults(hours: Sequence[HealthHour], names: Sequence[str], now_ms: int) -> list[DataFault]:
    """The faults of the fields with these names and of the rules in force. `hours` ascend."""
    whole = [each for each in hours if each.hour + HOUR_MS <= now_ms and each.rows >= FEWEST_PAYMENTS]
    counted = [each for each in hours if each.rows >= FEWEST_PAYMENTS]
    in_force = sorted(hours[-1].rules) if hours else []
    return [
        *(fault for name in names for fault in _null_field(name, counted)),
        *(fault for rule_id in in_force for fault in _unmatched(rule_id, hours, now_ms)),
        *(fault for rule_id in in_force for fault in _unusual_rate(rule_id, whole)),
    ]


def _null_field(name: str, hours: Sequence[HealthHour]) -> Iterator[DataFault]:
    """A field that half of the payments lack in the newest hours, and that few lacked before."""

    def share(hour: HealthHour) -> float:
        return hour.nulls.get(name, 0) / hour.rows

    lacking = list(takewhile(lambda each: share(each) >= NULL_SHARE, reversed(hours)))
    usual = hours[: len(hours) - len(lacking)]
    if not lacking or not usual or median(map(share, usual)) > USUAL_NULL_SHARE:
        return
    reason = f"{share(lacking[0]):.0%} of the payments have no {name}, usually {median(map(share, usual)):.0%}"
    yield DataFault(DataVerdict.FIELD_NULL, reason, lacking[-1].hour, name=name)


def _unmatched(rule_id: int, hours: Sequence[HealthHour], now_ms: int) -> Iterator[DataFault]:
    """A rule in force for a week whose `filter` or `when` has matched no payment of this week."""
    week_ms = now_ms - WEEK_MS
    having = [each for each in hours if rule_id in each.rules]
    recent = [each for each in having if each.hour >= week_ms]
    if not recent or having[0].hour > week_ms + HOUR_MS or sum(each.rows for each in recent) < FEWEST_PAYMENTS:
        return
    passed, held = (sum(getattr(each.rules[rule_id], name) for each in recent) for name in ("passed", "held"))
    if passed and held:
        return
    which = "filter" if not passed else "when"
    reason = f"the {which} has matched none of {sum(each.rows for each in recent):,} payments in seven days"
    yield DataFault(DataVerdict.RULE_UNMATCHED, reason, having[0].hour, rule_id=rule_id)


def _unusual_rate(rule_id: int, hours: Sequence[HealthHour]) -> Iterator[DataFault]:
    """A rule whose share of alerted payments in the newest whole hour is far from those of all hours before."""
    having = [each for each in hours if rule_id in each.rules]
    if len(having) <= FEWEST_HOURS:
        return

    def rate(hour: HealthHour) -> float:
        return hour.rules[rule_id].alerts / hour.rows

    newest, before = having[-1], having[:-1]
    alerts = newest.rules[rule_id].alerts
    least, most = (edge(map(rate, before)) * newest.rows for edge in (min, max))
    is_high = alerts >= FEWEST_ALERTS and alerts > RATE_FACTOR * most
    is_low = least >= FEWEST_ALERTS and alerts * RATE_FACTOR < least
    if is_high or is_low:
        usual = f"{least:,.0f} to {most:,.0f}"
        reason = f"{alerts:,} alerts in an hour of {newest.rows:,} payments; before, so many had {usual}"
        yield DataFault(DataVerdict.RULE_RATE, reason, newest.hour, rule_id=rule_id)

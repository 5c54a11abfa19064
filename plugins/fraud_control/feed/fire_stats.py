"""Fire statistics: how often each rule fires, and which other rules fire for the same transactions. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fraud_control.feed.events import FeedAlert

_MOST_OVERLAPS = 5
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class RuleFireStats:
    """The number and rate of a rule's alerts since `since_ms`, the first of them. `overlap` has, per other rule, the
    share of alerts for whose transaction that rule fired too.
    """

    rule_id: int
    alerts: int
    per_hour: float
    since_ms: int
    overlap: tuple[tuple[int, float], ...]


def fire_stats(alerts: Iterable[FeedAlert], retracted: Iterable[str], now_ms: int) -> list[RuleFireStats]:
    """Compute the statistics by rule id, without retracted alerts. The rate covers the time since a rule's first
    alert.
    """
    gone = frozenset(retracted)
    counts: Counter[int] = Counter()
    first_ms: dict[int, int] = {}
    by_transaction: dict[int | str, set[int]] = defaultdict(set)
    for alert in alerts:
        facts = alert.facts
        if facts.alert_id in gone:
            continue
        counts[facts.rule_id] += 1
        first_ms[facts.rule_id] = min(first_ms.get(facts.rule_id, alert.append_ms), alert.append_ms)
        by_transaction[facts.triggering_event.transaction_id].add(facts.rule_id)
    both = _both(by_transaction.values())
    return [
        RuleFireStats(
            rule_id,
            count,
            round(count / max(1.0, (now_ms - first_ms[rule_id]) / _HOUR_MS), 2),
            first_ms[rule_id],
            tuple((other, round(n / count, 4)) for other, n in both[rule_id].most_common(_MOST_OVERLAPS)),
        )
        for rule_id, count in sorted(counts.items())
    ]


def _both(sets: Iterable[set[int]]) -> Mapping[int, Counter[int]]:
    both: dict[int, Counter[int]] = defaultdict(Counter)
    for rules in sets:
        for rule in rules if len(rules) > 1 else ():
            both[rule].update(rules - {rule})
    return both

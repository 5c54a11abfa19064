"""Checks a run of the demo: compares the published alerts with a replay of the recorded logs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fraud_rules.model.schema import ID_FIELD
from fraud_rules.replay.replay import alert_members, decision_members, encode_exactly

_SHOWN = 3
_ODD_PER_TRANSACTIONS = 1_000
_ODD_AT_LEAST = 3


@dataclass(frozen=True, slots=True)
class PublishedOutputs:
    """The detector's decoded outputs, in the order of the topics. `quarantined` counts records."""

    alerts: Sequence[Mapping[str, Any]]
    shadow_alerts: Sequence[Mapping[str, Any]]
    late: Sequence[Mapping[str, Any]]
    quarantined: int
    decisions: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class SentTraffic:
    """The sent traffic: the number of records, and the labels of planted frauds by transaction id."""

    records: int
    planted: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The figures of a run, and its faults as sentences. `patterns` are the fraud patterns of the found frauds."""

    transactions: int
    alerts: int
    shadow_alerts: int
    planted: int
    found: int
    patterns: tuple[str, ...]
    others: int
    late: int
    quarantined: int
    duplicates: int
    faults: tuple[str, ...]
    decisions: Mapping[str, int] = field(default_factory=dict)
    """The number of decisions by outcome."""

    @property
    def right(self) -> bool:
        """Whether there are no faults."""
        return not self.faults


def check_run(published: PublishedOutputs, answer: Mapping[str, Sequence[Any]], traffic: SentTraffic) -> RunVerdict:
    """Compare the published outputs with the answer of `fraud streams replay`, and search for the planted frauds."""
    everything = [*published.alerts, *published.shadow_alerts]
    labels = [traffic.planted.get(alert["triggeringEvent"][ID_FIELD]) for alert in everything]
    wanted = set(traffic.planted.values())
    missed = sorted(wanted - set(labels))
    others = sum(label is None for label in labels)
    faults = [
        *_differences([alert_members(alert) for alert in everything], answer["alerts"]),
        *_misplaced(published),
        *_unequal("decisions", _decided(published.decisions), _decided(answer["decisions"])),
        *_unequal("late transactions", [each["transaction"][ID_FIELD] for each in published.late], answer["late"]),
    ]
    if published.quarantined != len(answer["quarantine"]):
        faults.append(f"{published.quarantined} records quarantined, but {len(answer['quarantine'])} in the replay")
    if missed:
        faults.append(f"planted frauds without an alert: {', '.join(missed)}")
    if others > max(_ODD_AT_LEAST, traffic.records // _ODD_PER_TRANSACTIONS):
        faults.append(f"{others} alerts about ordinary traffic: too many")
    return RunVerdict(
        transactions=traffic.records,
        alerts=len(published.alerts),
        shadow_alerts=len(published.shadow_alerts),
        planted=len(wanted),
        found=len(wanted) - len(missed),
        patterns=tuple(sorted({label.rpartition("-")[0] for label in wanted.difference(missed)})),
        others=others,
        late=len(published.late),
        quarantined=published.quarantined,
        duplicates=len(answer["duplicates"]),
        faults=tuple(faults),
        decisions=Counter(each["outcome"] for each in published.decisions),
    )


def _differences(got: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> list[str]:
    """Check that every alert is published exactly once, with all members equal."""
    twice = [identity for identity, count in Counter(alert["alertId"] for alert in got).items() if count > 1]
    mine = {alert["alertId"]: alert for alert in got}
    theirs = {alert["alertId"]: alert for alert in expected}
    kinds = {
        "published twice": twice,
        "in the replay but not published": theirs.keys() - mine.keys(),
        "published but not in the replay": mine.keys() - theirs.keys(),
        "with other values than in the replay": [
            identity for identity in mine.keys() & theirs.keys() if mine[identity] != theirs[identity]
        ],
    }
    return [f"{len(ids)} alerts {kind}: {', '.join(sorted(ids)[:_SHOWN])}" for kind, ids in kinds.items() if ids]


def _decided(decisions: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """The members of decisions that a replay returns, as comparable text."""
    return [encode_exactly(decision_members(each)) for each in decisions]


def _misplaced(published: PublishedOutputs) -> list[str]:
    wrong = sum(alert["shadow"] for alert in published.alerts)
    wrong += sum(not alert["shadow"] for alert in published.shadow_alerts)
    return [f"{wrong} alerts in the wrong topic (live or shadow)"] if wrong else []


def _unequal(what: str, got: Sequence[object], expected: Sequence[object]) -> list[str]:
    more, less = Counter(got) - Counter(expected), Counter(expected) - Counter(got)
    if not more and not less:
        return []
    return [f"{what}: {more.total()} not in the replay, {less.total()} missing"]

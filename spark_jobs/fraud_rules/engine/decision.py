"""Builds the decisions of a batch from its alerts. Pure.

The rules that fire for one transaction have different groupings, so their alerts come from different key groups. A
decision needs all of them, so the driver builds it after the merge. It copies the transaction's JSON from an alert,
because the driver is one thread, and a batch may have as many decisions as alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw

from fraud_rules.model.decision import DecisionThresholds, score_of
from fraud_rules.model.documents.transactions import DecidingAlertDocument, DecisionDocument
from fraud_rules.model.output import AlertRecord, KeyGroupOutput

_encode = msgspec.json.Encoder().encode
_order = attrgetter("append_ms", "partition", "offset", "rule_id", "role")


def alerts_in_order(outputs: Iterable[KeyGroupOutput]) -> list[AlertRecord]:
    """The alerts of a batch, live and shadow, by (append time, partition, offset, rule id, role)."""
    alerts = [alert for output in outputs for alert in output.alerts]
    alerts.sort(key=_order)
    return alerts


class PlacedDecision(NamedTuple):
    """A decision: the transactionId as text, the JSON, and the first alert of the transaction."""

    key: bytes
    json: bytes
    alert: AlertRecord


def decisions(
    alerts: Iterable[AlertRecord], thresholds: DecisionThresholds, detection_ms: int
) -> Iterator[PlacedDecision]:
    """Yield one decision for each transaction with an alert of an ACTIVE rule.

    `alerts` are in the order of `alerts_in_order`. A suppressed alert is no alert, and does not count. A second
    delivery of a transactionId that a grouping does not ignore has alerts of its own, so it also has a decision of its
    own. `detection_ms` is the wall-clock time that the decisions carry.
    """
    same: list[AlertRecord] = []
    for alert in alerts:
        if alert.shadow:
            continue
        if same and (same[0].offset != alert.offset or same[0].partition != alert.partition):
            yield _decision(same, thresholds, detection_ms)
            same = []
        same.append(alert)
    if same:
        yield _decision(same, thresholds, detection_ms)


def _decision(alerts: Sequence[AlertRecord], thresholds: DecisionThresholds, detection_ms: int) -> PlacedDecision:
    """The decision from all live alerts of one transaction, which are ordered by rule id and role."""
    first = alerts[0]
    score = score_of({alert.rule_id: alert.weight for alert in alerts})
    decision = DecisionDocument(
        transaction_id=first.transaction_id,
        score=score,
        outcome=thresholds.outcome(score),
        alerts=[
            DecidingAlertDocument(alert.rule_id, alert.rule_version, alert.alert_id, alert.weight) for alert in alerts
        ],
        event_time=first.event_ms,
        ingestion_time=first.append_ms,
        detection_time=detection_ms,
        transaction=Raw(first.json[first.transaction_at : first.transaction_end]),
    )
    return PlacedDecision(str(first.transaction_id).encode(), _encode(decision), first)

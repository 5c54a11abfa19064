"""Builds the decisions of a batch from its alerts. Pure.

The rules that fire for one transaction have different groupings, so their alerts come from different key groups. A
decision needs all of them, so the driver builds it after the merge. Its JSON is joined from parts, because the driver
is one thread, and a batch may have as many decisions as alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec

from fraud_rules.model.decision import DecisionThresholds, score_of
from fraud_rules.model.output import AlertRecord, KeyGroupOutput

__all__ = ["alerts_in_order", "decisions"]

_encode = msgspec.json.Encoder().encode
_order = attrgetter("append_ms", "partition", "offset", "rule_id")


def alerts_in_order(outputs: Iterable[KeyGroupOutput]) -> list[AlertRecord]:
    """The alerts of a batch, live and shadow, by (append time, partition, offset, rule id)."""
    alerts = [alert for output in outputs for alert in output.alerts]
    alerts.sort(key=_order)
    return alerts


def decisions(
    alerts: Iterable[AlertRecord], thresholds: DecisionThresholds, detection_ms: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield one decision for each transaction with an alert of an ACTIVE rule: its transactionId as text, and its JSON.

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


def _decision(alerts: Sequence[AlertRecord], thresholds: DecisionThresholds, detection_ms: int) -> tuple[bytes, bytes]:
    """The decision from all live alerts of one transaction, which are ordered by rule id."""
    first = alerts[0]
    if len(alerts) == 1:
        score, counted = first.weight, _counted(first)
    else:
        score = score_of({alert.rule_id: alert.weight for alert in alerts})
        counted = b",".join([_counted(alert) for alert in alerts])
    transaction_id = first.transaction_id
    key = b"%d" % transaction_id if isinstance(transaction_id, int) else transaction_id.encode()
    text = (
        b'{"transactionId":%b,"score":%d,"outcome":"%b","alerts":[%b],"eventTime":%d,"ingestionTime":%d,'
        b'"detectionTime":%d,"transaction":%b}'
        % (
            key if isinstance(transaction_id, int) else _encode(transaction_id),
            score,
            thresholds.outcome(score).encode(),
            counted,
            first.event_ms,
            first.append_ms,
            detection_ms,
            first.json[first.transaction_at : first.transaction_end],
        )
    )
    return key, text


def _counted(alert: AlertRecord) -> bytes:
    """The alert in the list of its decision."""
    return b'{"ruleId":%d,"ruleVersion":%d,"alertId":"%b","weight":%d}' % (
        alert.rule_id,
        alert.rule_version,
        alert.alert_id.encode(),
        alert.weight,
    )

"""Builds the decisions of a batch from its alerts. Pure.

The rules that fire for one transaction have different groupings, so their alerts come from different key groups. A
decision needs all of them, so the driver builds it after the merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from fraud_rules.model.decision import DecisionThresholds, score_of
from fraud_rules.model.output import AlertRecord, KeyGroupOutput

__all__ = ["DecisionRecord", "decisions"]

_encode = msgspec.json.Encoder().encode


class DecisionRecord(msgspec.Struct, frozen=True, gc=False):
    """One decision as JSON, and its key, the transactionId as text."""

    key: bytes
    json: bytes


class _AlertParts(msgspec.Struct, gc=False, rename="camel"):
    """The members of an alert that its decision repeats."""

    triggering_event: msgspec.Raw
    event_time: int
    ingestion_time: int


class _Id(msgspec.Struct, gc=False, rename="camel"):
    transaction_id: int | str


_parts_of = msgspec.json.Decoder(_AlertParts).decode
_id_of = msgspec.json.Decoder(_Id).decode
_place = attrgetter("append_ms", "partition", "offset")
_order = attrgetter("append_ms", "partition", "offset", "rule_id")


def decisions(
    outputs: Sequence[KeyGroupOutput], thresholds: DecisionThresholds, detection_ms: int
) -> Iterator[DecisionRecord]:
    """Yield one decision for each transaction with an alert of an ACTIVE rule, by (append time, partition, offset).

    A suppressed alert is no alert, and does not count. A second delivery of a transactionId that a grouping does not
    ignore has alerts of its own, so it also has a decision of its own. `detection_ms` is the wall-clock time that the
    decisions carry.
    """
    live = [alert for output in outputs for alert in output.alerts if not alert.shadow]
    live.sort(key=_order)
    for _, group in groupby(live, key=_place):
        yield _decision(list(group), thresholds, detection_ms)


def _decision(alerts: Sequence[AlertRecord], thresholds: DecisionThresholds, detection_ms: int) -> DecisionRecord:
    """The decision from all live alerts of one transaction, which are ordered by rule id."""
    parts = _parts_of(alerts[0].json)
    transaction_id = _id_of(parts.triggering_event).transaction_id
    score = score_of({alert.rule_id: alert.weight for alert in alerts})
    document = {
        "transactionId": transaction_id,
        "score": score,
        "outcome": thresholds.outcome(score).value,
        "alerts": [
            {
                "ruleId": alert.rule_id,
                "ruleVersion": alert.rule_version,
                "alertId": alert.alert_id,
                "weight": alert.weight,
            }
            for alert in alerts
        ],
        "eventTime": parts.event_time,
        "ingestionTime": parts.ingestion_time,
        "detectionTime": detection_ms,
        "transaction": parts.triggering_event,
    }
    return DecisionRecord(str(transaction_id).encode(), _encode(document))

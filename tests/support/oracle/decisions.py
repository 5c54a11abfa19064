"""The decision about one transaction, written from the specification alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.oracle.arithmetic import Value
from tests.support.oracle.rules.log import LogEntry

DECLINE = 100
REVIEW = 50


def weight(document: Mapping[str, Any]) -> int:
    """The weight of a rule's record: its own, or that of its severity."""
    if "weight" in document:
        return int(document["weight"])
    match str(document.get("severity", "")).lower():
        case "low":
            return 10
        case "high":
            return 50
        case "critical":
            return 100
        case _:
            return 25


def decision(
    transaction_id: Value, event_ms: int, alerts: Sequence[Mapping[str, Any]], log: Sequence[LogEntry]
) -> dict[str, Any] | None:
    """The decision from all alerts of a transaction, None without an alert of an ACTIVE rule."""
    counted = []
    for alert in sorted(alerts, key=lambda alert: int(alert["ruleId"])):
        if not alert["shadow"]:
            rule = next(entry.change for entry in log if entry.version == alert["ruleVersion"])
            weighed = weight(getattr(rule, "document", {}))
            counted.append({"ruleId": alert["ruleId"], "ruleVersion": alert["ruleVersion"], "weight": weighed})
    if not counted:
        return None
    score = sum({each["ruleId"]: each["weight"] for each in counted}.values())  # each rule once
    outcome = "DECLINE" if score >= DECLINE else "REVIEW" if score >= REVIEW else "NOTE"
    return {
        "transactionId": transaction_id,
        "score": score,
        "outcome": outcome,
        "alerts": counted,
        "eventTime": event_ms,
    }

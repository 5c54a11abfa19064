"""Alerts in the form that the feed reads."""

from __future__ import annotations

import json
from typing import Any

from fraud_control.feed.events import FeedAlert, read_alert
from fraud_control.feed.place import FeedSource


def alert_json(number: int, rule_id: int = 1, **members: Any) -> bytes:
    alert = {
        "alertId": f"{number:08x}-0000-5000-8000-000000000000",
        "ruleId": rule_id,
        "ruleVersion": 3,
        "shadow": False,
        "violatedRule": {"ruleId": rule_id, "name": "</script>"},
        "key": {"payeeId": number % 3},
        "triggeringValue": "21.5",
        "triggeringEvent": {"transactionId": number},
        "windowStart": 0,
        "windowEnd": 1,
        "windowCount": 2,
        "windowComplete": True,
        "suppressed": 0,
        "eventTime": 1,
        "ingestionTime": 2,
        "detectionTime": 3,
    }
    return json.dumps({**alert, **members}).encode()


def alert(number: int, rule_id: int = 1, source: FeedSource = FeedSource.ALERTS, **members: Any) -> FeedAlert:
    return read_alert(source, number, number * 1_000, alert_json(number, rule_id, **members))

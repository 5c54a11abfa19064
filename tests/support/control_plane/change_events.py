"""Debezium change events of a rule table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ROW: dict[str, Any] = {
    "rule_id": 5,
    "rule_state": "ACTIVE",
    "grouping_key_names": "payeeId&beneficiaryId",
    "aggregate_field_name": "paymentAmount",
    "aggregator_function_type": "SUM",
    "limit_operator_type": ">",
    "limit": "20.50",
    "window_minutes": 20,
    "filter": None,
    "disabled": 0,
}


def envelope(op: str, after: Mapping[str, Any] | None = None, before: Mapping[str, Any] | None = None) -> bytes:
    source = {"connector": "postgresql", "table": "rules", "lsn": 7}
    payload = {"before": before, "after": after, "op": op, "ts_ms": 1_700_000_000_000, "source": source}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()

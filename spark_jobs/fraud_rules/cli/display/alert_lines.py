"""Formats alerts and corrections as lines of a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rich.text import Text

from fraud_rules.runtime.clock import utc_text
from fraud_rules.runtime.grouped_number import grouped
from fraud_rules.runtime.safe_text import scalar_text

_SEVERITIES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan"}


class _Baseline(msgspec.Struct):
    value: str


class _Alert(msgspec.Struct, rename="camel"):
    """The members of an alert that `alert_line` needs."""

    rule_id: int
    violated_rule: dict[str, Any]
    key: dict[str, Any]
    triggering_value: str
    window_count: int
    event_time: int
    ingestion_time: int
    shadow: bool
    suppressed: int
    baseline: _Baseline | None = None


class _Correction(msgspec.Struct, rename="camel"):
    """The members of a correction that `correction_line` needs."""

    kind: str
    alert_id: str
    day: str
    alert: _Alert | None = None


def read_alert_line(value: bytes, received_ms: int) -> Text:
    """Decode an alert record into a line. Raises msgspec.MsgspecError, ValueError or OverflowError if unreadable."""
    document = msgspec.json.decode(value)
    msgspec.convert(document, _Alert)
    return alert_line(document, received_ms)


def read_correction_line(value: bytes, received_ms: int) -> Text:
    """Decode a correction record into a line. Raises the same errors as `read_alert_line`."""
    document = msgspec.json.decode(value)
    msgspec.convert(document, _Correction)
    return correction_line(document, received_ms)


def alert_line(alert: Mapping[str, Any], received_ms: int, mark: str = "") -> Text:
    """Format an alert: time, severity, rule, key, value, remarks and latency (transaction's arrival to reading).

    `mark` is the last remark. An alert of a shadow rule is dimmed and has the remark "shadow".
    """
    when, severity, rule, who, value, remarks, latency = alert_cells(alert, received_ms, mark)
    severity.pad_right(max(0, 8 - len(severity)))
    rule.pad_right(max(0, 40 - len(rule)))
    named = Text.assemble("rule ", rule)
    return Text("  ").join(part for part in (when, severity, named, who, value, remarks, latency) if part)


def correction_line(correction: Mapping[str, Any], _: int) -> Text:
    """Format a correction: its kind (ADDED or RETRACTED), the day and the alert."""
    kind = Text(correction["kind"], "green" if correction["kind"] == "ADDED" else "red")
    kind.pad_right(max(0, 9 - len(kind)))
    alert = correction.get("alert")
    about = alert_cells(alert, 0)[:-1] if alert else (Text(f"alert {correction['alertId']}"),)
    return Text("  ").join(part for part in (kind, Text(correction["day"]), *about) if part)


def alert_cells(alert: Mapping[str, Any], received_ms: int, mark: str = "") -> tuple[Text, ...]:
    """The parts of an alert's line: time, severity, rule, key, value, remarks, latency."""
    rule = alert["violatedRule"]
    severity = str(rule.get("severity", "alert"))
    value = _value(alert, rule)
    remarks = Text()
    if alert["shadow"]:
        remarks.append("shadow ", "dim italic")
    if alert["suppressed"]:
        remarks.append(f"{alert['suppressed']:,} suppressed ", "dim")
    remarks.append(mark, "bold magenta")
    remarks.rstrip()
    return (
        Text(utc_text(alert["eventTime"]), "dim"),
        Text(severity.upper(), _SEVERITIES.get(severity.lower(), "bold")),
        Text(f"{alert['ruleId']} {rule.get('name', '')}", "dim" if alert["shadow"] else ""),
        Text(", ".join(f"{name}={scalar_text(value)}" for name, value in alert["key"].items())),
        value,
        remarks,
        Text(f"{received_ms - alert['ingestionTime']} ms", "green"),
    )


def _value(alert: Mapping[str, Any], rule: Mapping[str, Any]) -> Text:
    """The aggregate, its comparison and the payments in the window. Without an aggregate of the rule's own, the number
    of conditions that hold."""
    measured = grouped(alert["triggeringValue"])
    if "conditions" in rule and "aggregatorFunctionType" not in rule:
        return Text(f"{measured} {'condition' if measured == '1' else 'conditions'}", "bold")
    compared = _comparison({**rule, "limit": alert.get("limit", rule.get("limit", ""))}, alert.get("baseline"))
    value = Text(f"{_aggregate_name(rule)} {measured}", "bold")
    value.append(f" {compared}", "not bold")
    value.append(f" of {alert['windowCount']:,}", "not bold dim")
    return value


def _comparison(rule: Mapping[str, Any], past: Mapping[str, Any] | None) -> str:
    """The operator and the limit. With the baseline of an alert: `> 3 x 41.5` or `> 41.5 + 3 deviations`."""
    operator, limit = str(rule.get("limitOperatorType", "")), grouped(str(rule.get("limit", "")))
    if past is None:
        return f"{operator} {limit}"
    members = rule.get("baseline")
    if not isinstance(members, Mapping) or members.get("deviations") is not True:
        return f"{operator} {limit} x {grouped(past['value'])}"
    sign = "-" if operator.startswith(("<", "LESS")) else "+"
    return f"{operator} {grouped(past['value'])} {sign} {limit} deviations"


def _aggregate_name(rule: Mapping[str, Any]) -> str:
    """The name of the aggregate. Rules of the Flink demo write a count as a field, for example COUNT_FLINK."""
    field = str(rule.get("aggregateFieldName", ""))
    return field.removesuffix("_FLINK") if field.endswith("_FLINK") else str(rule.get("aggregatorFunctionType", ""))

"""Alerts as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from rich.text import Text

_SEVERITIES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan"}


def alert_line(alert: Mapping[str, Any], received_ms: int, mark: str = "") -> Text:
    """One alert: when, which rule, about whom, what and how much, and how long after its arrival it could be read.

    `mark` is put at the end; an alert of a shadow rule is dimmed and says so.
    """
    rule = alert["violatedRule"]
    severity = str(rule.get("severity", ""))
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(_clock(alert["eventTime"]), "dim")
    line.append(f"  {severity.upper() or 'ALERT':<8}", _SEVERITIES.get(severity.lower(), "bold"))
    line.append(f"  rule {alert['ruleId']} {rule.get('name', '')}".ljust(44), "dim" if alert["shadow"] else "")
    line.append("  " + ", ".join(f"{name}={value}" for name, value in alert["key"].items()))
    aggregate = rule.get("aggregatorFunctionType", "")
    line.append(f"  {aggregate} {_amount(alert['triggeringValue'])}", "bold")
    line.append(f" {rule.get('limitOperatorType')} {rule.get('limit')}")
    line.append(f" of {alert['windowCount']}", "dim")
    if alert["shadow"]:
        line.append("  shadow", "dim italic")
    if alert["suppressed"]:
        line.append(f"  {alert['suppressed']} suppressed", "dim")
    if mark:
        line.append(f"  {mark}", "bold magenta")
    line.append(f"  {received_ms - alert['ingestionTime']} ms", "green")
    return line


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000).astimezone().strftime("%H:%M:%S")


def _amount(text: str) -> str:
    try:
        return f"{Decimal(text):,}"
    except InvalidOperation:
        return text

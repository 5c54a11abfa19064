"""Alerts and decisions with versions of rules that count from the first record of a stream, as a replay has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["relative_alert", "relative_decision"]


def relative_alert(alert: Mapping[str, Any], first: int) -> dict[str, Any]:
    """An alert with the versions of rules, lists and maps of its stream, whose first record has the version `first`."""
    relative = {**alert, "ruleVersion": alert["ruleVersion"] - first}
    for member in {"lists", "maps"} & alert.keys():
        relative[member] = {name: version - first for name, version in alert[member].items()}
    if "conditions" in alert:
        relative["conditions"] = [_relative_condition(each, first) for each in alert["conditions"]]
    return relative


def relative_decision(decision: Mapping[str, Any], first: int) -> dict[str, Any]:
    """A decision with the versions of the rules of its stream."""
    alerts = [{**alert, "ruleVersion": alert["ruleVersion"] - first} for alert in decision["alerts"]]
    return {**decision, "alerts": alerts}


def _relative_condition(condition: Mapping[str, Any], first: int) -> Mapping[str, Any]:
    """A condition that names a rule has its version, or null if the payment was not evaluated."""
    version = condition.get("ruleVersion")
    return condition if version is None else {**condition, "ruleVersion": version - first}

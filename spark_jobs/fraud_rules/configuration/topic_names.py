"""The names of the topics by role, from the declaration `config/topics.yaml`.

The declaration lists each topic under its role, with hyphens. A topic's name is its role unless the declaration has a
`name` for it. FRAUD_TOPICS_ALERTS overrides the name of `alerts`, and so on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from fraud_rules.configuration.settings_file import matching, read_settings
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.yaml_file import read_yaml

ENV_PREFIX: Final = "FRAUD_"
TOPICS_FILE: Final = "topics.yaml"

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def _topic(default: str) -> Any:
    return matching(default, _TOPIC, "a Kafka topic name")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of all topics that the product reads or writes, by role."""

    transactions: str = _topic("transactions")
    rules: str = _topic("rules")
    rules_cdc: str = _topic("rules-cdc")
    labels: str = _topic("labels")
    alerts: str = _topic("alerts")
    shadow_alerts: str = _topic("shadow-alerts")
    alert_corrections: str = _topic("alert-corrections")
    decisions: str = _topic("decisions")
    restrictions: str = _topic("restrictions")
    late_transactions: str = _topic("late-transactions")
    quarantine: str = _topic("quarantine")
    quarantine_replays: str = _topic("quarantine-replays")
    rule_operations: str = _topic("rule-operations")
    current_rules: str = _topic("current-rules")
    detector_progress: str = _topic("detector-progress")
    latency: str = _topic("latency")
    evaluations: str = _topic("evaluations")
    detector_marker: str = _topic("detector-marker")
    detector_state: str = _topic("detector-state")
    data_health: str = _topic("data-health")
    warm_ups: str = _topic("warm-ups")
    alarms: str = _topic("alarms")
    detector_intents: str = _topic("detector-intents")
    detector_attempts: str = _topic("detector-attempts")


_ROLES: Final = frozenset(role.name for role in fields(TopicNames))


def role_of(declared: str) -> str | None:
    """The role of a key in the declaration; None for a topic that the product does not use."""
    role = declared.replace("-", "_")
    return role if role in _ROLES else None


def load_topic_names(path: Path, environ: Mapping[str, str] = os.environ) -> TopicNames:
    """Read the names in a declaration and overlay the environment. Raises ConfigError with every wrong name."""
    document = read_yaml(path)
    topics = document.get("topics") if isinstance(document, Mapping) else None
    if not isinstance(topics, Mapping):
        raise ConfigError(f"{path}: must be a mapping with `topics`, by name")
    given = {
        role: members["name"]
        for declared, members in topics.items()
        if (role := role_of(str(declared))) is not None and isinstance(members, Mapping) and "name" in members
    }
    faults: list[str] = []
    names = TopicNames(**read_settings(TopicNames, given, environ, ENV_PREFIX, faults, "topics."))
    faults += names_used_twice(names)
    if faults:
        raise ConfigError(f"{path}: " + "; ".join(faults))
    return names


def names_used_twice(names: TopicNames) -> Iterable[str]:
    """Report each name that two roles share, as a fault."""
    used = [getattr(names, role.name) for role in fields(TopicNames)]
    yield from (f"topics: {name} is used for two roles" for name in sorted({n for n in used if used.count(n) > 1}))

"""The detector's settings: `config/detector.yaml`, each overridable by an environment variable.

`key_groups` is overridden by FRAUD_KEY_GROUPS, `topics.shadow_alerts` by FRAUD_TOPICS_SHADOW_ALERTS, and so on. Every
wrong key and value is reported at once. A setting not given has its default here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.limits import RuleLimits
from fraud_rules.settings_file import NAME, NAME_IS, bounded, matching, read_settings
from fraud_rules.yaml_file import read_yaml

__all__ = ["ENV_PREFIX", "DetectorSettings", "RuleLimits", "TopicNames"]

ENV_PREFIX = "FRAUD_"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def _topic(default: str) -> Any:
    return matching(default, _TOPIC, "a Kafka topic name")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The topics read and written, by role."""

    transactions: str = _topic("transactions")
    rules: str = _topic("rules")
    rules_cdc: str = _topic("rules-cdc")
    alerts: str = _topic("alerts")
    shadow_alerts: str = _topic("shadow-alerts")
    alert_corrections: str = _topic("alert-corrections")
    restrictions: str = _topic("restrictions")
    late_transactions: str = _topic("late-transactions")
    quarantine: str = _topic("quarantine")
    rule_operations: str = _topic("rule-operations")
    current_rules: str = _topic("current-rules")
    detector_progress: str = _topic("detector-progress")
    evaluations: str = _topic("evaluations")
    detector_marker: str = _topic("detector-marker")
    detector_ticks: str = _topic("detector-ticks")
    detector_intents: str = _topic("detector-intents")
    detector_attempts: str = _topic("detector-attempts")


_LIMITS = RuleLimits()
_TOPICS = TopicNames()


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Validated settings; times in milliseconds, sizes in bytes.

    `detector` names the instance: it fixes the transactional id, so that a second one with the same name fences the
    first. `key_groups` is fixed when a checkpoint is made. `tick_ms` is how long idle key groups may go unvisited.
    `state_budget_bytes` bounds the state that rules may ask for, reckoned with `state_bytes_per_event` (see `budget`).
    """

    detector: str = matching("detector", NAME, NAME_IS)
    key_groups: int = bounded(8, 1, 4_096)
    max_out_of_orderness_ms: int = bounded(300_000, 0, 86_400_000)
    future_tolerance_ms: int = bounded(300_000, 0, 86_400_000)
    tick_ms: int = bounded(10_000, 100, 20_000)
    max_offsets_per_trigger: int = bounded(200_000, 1, 100_000_000)
    max_transaction_bytes: int = bounded(1_048_576, 256, 104_857_600)
    state_budget_bytes: int = bounded(8_589_934_592, 1_048_576, 2**50)
    state_bytes_per_event: int = bounded(320, 1, 65_536)
    spill_output_bytes: int = bounded(16_777_216, 65_536, 2**31)
    evaluations: bool = False
    limits: RuleLimits = _LIMITS
    topics: TopicNames = _TOPICS

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> DetectorSettings:
        """Read the settings file and overlay the environment. Raises ConfigError with everything wrong in either."""
        document = read_yaml(path)
        return cls.parse({} if document is None else document, environ, str(path))

    def text(self) -> str:
        """All settings as a file that `load` reads back, whatever they came from."""
        return yaml.safe_dump(asdict(self), sort_keys=False)

    @classmethod
    def parse(cls, document: object, environ: Mapping[str, str], where: str = "settings") -> DetectorSettings:
        """The same from a decoded document; `where` names it in errors."""
        faults: list[str] = []
        settings = cls(**read_settings(cls, document, environ, ENV_PREFIX, faults))
        if not faults:
            faults += _faults_of_set(settings)
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return settings


def _faults_of_set(settings: DetectorSettings) -> Iterable[str]:
    """Settings that are right one by one and wrong together."""
    names = [getattr(settings.topics, role.name) for role in fields(TopicNames)]
    yield from (f"topics: {name} is used for two roles" for name in sorted({n for n in names if names.count(n) > 1}))

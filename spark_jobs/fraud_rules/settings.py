"""The detector's settings: `config/detector.yaml`, each overridable by an environment variable.

`key_groups` is overridden by FRAUD_KEY_GROUPS, `topics.shadow_alerts` by FRAUD_TOPICS_SHADOW_ALERTS, and so on. Every
wrong key and value is reported at once. A setting not given has its default here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.limits import RuleLimits
from fraud_rules.safe_text import shown
from fraud_rules.yaml_file import read_yaml

__all__ = ["ENV_PREFIX", "DetectorSettings", "RuleLimits", "TopicNames"]

ENV_PREFIX = "FRAUD_"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_FLAGS = MappingProxyType({"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False})


def _bounded(default: int, low: int, high: int) -> Any:
    """A whole-number setting with inclusive bounds."""
    return field(default=default, metadata={"low": low, "high": high})


def _matching(default: str, pattern: re.Pattern[str], what: str) -> Any:
    """A text setting with a pattern it must match in full."""
    return field(default=default, metadata={"pattern": pattern, "what": what})


def _topic(default: str) -> Any:
    return _matching(default, _TOPIC, "a Kafka topic name")


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

    detector: str = _matching("detector", _NAME, "lower-case letters, digits, '.', '_' and '-', at most 64")
    key_groups: int = _bounded(8, 1, 4_096)
    max_out_of_orderness_ms: int = _bounded(300_000, 0, 86_400_000)
    future_tolerance_ms: int = _bounded(300_000, 0, 86_400_000)
    tick_ms: int = _bounded(10_000, 100, 20_000)
    rule_poll_ms: int = _bounded(100, 10, 5_000)
    max_offsets_per_trigger: int = _bounded(200_000, 1, 100_000_000)
    max_transaction_bytes: int = _bounded(1_048_576, 256, 104_857_600)
    state_budget_bytes: int = _bounded(8_589_934_592, 1_048_576, 2**50)
    state_bytes_per_event: int = _bounded(320, 1, 65_536)
    spill_output_bytes: int = _bounded(16_777_216, 65_536, 2**31)
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
        settings: DetectorSettings = _read(cls, document, environ, "", faults)
        if not faults:
            faults += _faults_of_set(settings)
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return settings


def _read(kind: type[Any], document: object, environ: Mapping[str, str], path: str, faults: list[str]) -> Any:
    """An instance of a settings class from a mapping; `path` is the dotted name of where it sits, with its dot."""
    if not isinstance(document, Mapping):
        faults.append(f"{path.rstrip('.') or 'the file'} must be a mapping of settings")
        return kind()
    known = {setting.name: setting for setting in fields(kind)}
    faults += [f"{path}{name} is not a setting; known are {', '.join(known)}" for name in document if name not in known]
    values: dict[str, Any] = {}
    for name, setting in known.items():
        default = setting.default
        if isinstance(default, RuleLimits | TopicNames):
            values[name] = _read(type(default), document.get(name, {}), environ, f"{path}{name}.", faults)
            continue
        given = _overridden(default, document.get(name, default), environ.get(_variable(path + name)))
        fault = _fault_of(given, default, setting.metadata)
        if fault is None:
            values[name] = given
        else:
            source = f" (from {_variable(path + name)})" if _variable(path + name) in environ else ""
            faults.append(f"{path}{name}{source} {fault}, not {shown(given)}")
    return kind(**values)


def _variable(name: str) -> str:
    return ENV_PREFIX + name.upper().replace(".", "_")


def _overridden(default: object, given: object, text: str | None) -> object:
    """What an environment variable stands for in the setting's type; text that does not fit is left for a fault."""
    if text is None:
        return given
    if isinstance(default, bool):
        return _FLAGS.get(text.strip().lower(), text)
    if isinstance(default, int):
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip(), re.ASCII) else text
    return text


def _fault_of(given: object, default: object, bounds: Mapping[str, Any]) -> str | None:
    """What a value must be, where it is not."""
    if isinstance(default, bool):
        return None if isinstance(given, bool) else "must be true or false"
    if isinstance(default, int):
        low, high = bounds.get("low", 1), bounds.get("high", 2**53)
        fits = type(given) is int and low <= given <= high
        return None if fits else f"must be a whole number from {low} to {high}"
    fits = isinstance(given, str) and bounds["pattern"].fullmatch(given) is not None
    return None if fits else f"must be {bounds['what']}"


def _faults_of_set(settings: DetectorSettings) -> Iterable[str]:
    """Settings that are right one by one and wrong together."""
    names = [getattr(settings.topics, role.name) for role in fields(TopicNames)]
    yield from (f"topics: {name} is used for two roles" for name in sorted({n for n in names if names.count(n) > 1}))

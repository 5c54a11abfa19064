"""The control plane's settings: `config/control-plane.yaml`, each overridable by an environment variable.

`four_eyes` is overridden by FRAUD_CONTROL_FOUR_EYES, `flood.alerts_per_minute` by
FRAUD_CONTROL_FLOOD_ALERTS_PER_MINUTE, and so on; `bindings` only by the file. Every wrong key and value is reported
at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fraud_ops.control_plane.roles import Role
from fraud_rules.errors import ConfigError
from fraud_rules.project import Project
from fraud_rules.safe_text import shown
from fraud_rules.yaml_file import read_yaml

__all__ = ["ENV_PREFIX", "Bounds", "ControlPlaneSettings", "Flood"]

ENV_PREFIX: Final = "FRAUD_CONTROL_"
FILE: Final = "control-plane.yaml"

_FLAGS: Final = MappingProxyType({"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False})
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_DATABASE: Final = re.compile(r"(sqlite:///|postgresql(\+psycopg2)?://)[^\s\x00-\x1f]{1,1000}", re.ASCII)
_USER: Final = re.compile(r"[^\x00-\x1f\x7f]{1,256}")


def _bounded(default: int, low: int, high: int) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def _matching(default: str, pattern: re.Pattern[str], what: str) -> Any:
    return field(default=default, metadata={"pattern": pattern, "what": what})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one request may ask for; all inclusive. `page` is the most items of a list at once, `outbox` how many
    changes may wait for the rule log."""

    comment_chars: int = _bounded(2_000, 0, 100_000)
    import_bytes: int = _bounded(1_048_576, 1_024, 16_777_216)
    import_rules: int = _bounded(2_000, 1, 100_000)
    rules: int = _bounded(10_000, 1, 1_000_000)
    page: int = _bounded(1_000, 1, 10_000)
    outbox: int = _bounded(100_000, 1, 10_000_000)
    snooze_days: int = _bounded(30, 1, 366)


@dataclass(frozen=True, slots=True)
class Flood:
    """When one rule's alerts are a flood, and whether it is then moved to SHADOW by itself."""

    alerts_per_minute: int = _bounded(1_000, 1, 10_000_000)
    to_shadow: bool = False


_BOUNDS = Bounds()
_FLOOD = Flood()


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Validated settings. `database` is a URL of SQLAlchemy's (SQLite or Postgres) that may hold a password: it is in
    no `repr`; empty, it is a SQLite file in the project's `var/`. `name` is the Kafka transactional id: one writer at
    a time.
    """

    name: str = _matching("fraud-control-plane", _NAME, "lower-case letters, digits, '.', '_' and '-', at most 64")
    database: str = field(default="", repr=False, metadata={"pattern": _DATABASE, "what": "a SQLite or Postgres URL"})
    four_eyes: bool = False
    bounds: Bounds = _BOUNDS
    flood: Flood = _FLOOD
    bindings: Mapping[str, Role] = field(default_factory=dict)

    @classmethod
    def load(cls, project: Project, environ: Mapping[str, str] = os.environ) -> ControlPlaneSettings:
        """Those of a project, with the environment over them. Raises ConfigError with everything wrong in either."""
        path = project.config / FILE
        document = read_yaml(path) if path.exists() else {}
        return cls.parse({} if document is None else document, project.var, environ, str(path))

    @classmethod
    def parse(
        cls, document: object, var: Path, environ: Mapping[str, str], where: str = "settings"
    ) -> ControlPlaneSettings:
        """The same from a decoded document; `where` names it in errors, `var` is where the default database lies."""
        faults: list[str] = []
        values = _read(cls, document, environ, "", faults)
        values.setdefault("database", f"sqlite:///{var / 'control-plane.db'}")
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(**values)


def _read(
    kind: type[Any], document: object, environ: Mapping[str, str], path: str, faults: list[str]
) -> dict[str, Any]:
    """The values given for a settings class; `path` is the dotted name of where it sits, with its dot."""
    if not isinstance(document, Mapping):
        faults.append(f"{path.rstrip('.') or 'the file'} must be a mapping of settings")
        return {}
    known = {setting.name: setting for setting in fields(kind)}
    faults += [f"{path}{name} is not a setting; known are {', '.join(known)}" for name in document if name not in known]
    values: dict[str, Any] = {}
    for name, setting in known.items():
        if name == "bindings":
            values[name] = _bindings(document.get(name) or {}, faults)
            continue
        if isinstance(setting.default, Bounds | Flood):
            inner = type(setting.default)
            values[name] = inner(**_read(inner, document.get(name, {}), environ, f"{path}{name}.", faults))
            continue
        variable = ENV_PREFIX + (path + name).upper().replace(".", "_")
        if name not in document and variable not in environ:
            continue
        given = _overridden(setting.default, document.get(name), environ.get(variable))
        fault = _fault_of(given, setting.default, setting.metadata)
        if fault is None:
            values[name] = given
        else:
            source = f" (from {variable})" if variable in environ else ""
            faults.append(f"{path}{name}{source} {fault}" + ("" if name == "database" else f", not {shown(given)}"))
    return values


def _overridden(default: object, given: object, text: str | None) -> object:
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
        fits = type(given) is int and bounds["low"] <= given <= bounds["high"]
        return None if fits else f"must be a whole number from {bounds['low']} to {bounds['high']}"
    fits = isinstance(given, str) and bounds["pattern"].fullmatch(given) is not None
    return None if fits else f"must be {bounds['what']}"


def _bindings(given: object, faults: list[str]) -> Mapping[str, Role]:
    """Users to roles."""
    if not isinstance(given, Mapping):
        faults.append("bindings must map users to roles")
        return {}
    found: dict[str, Role] = {}
    for user, role in given.items():
        if not isinstance(user, str) or not _USER.fullmatch(user):
            faults.append(f"bindings: {shown(user)} is not a user's name")
        elif role not in tuple(Role):
            faults.append(f"bindings.{user} must be one of {', '.join(Role)}, not {shown(role)}")
        else:
            found[user] = Role(role)
    return found

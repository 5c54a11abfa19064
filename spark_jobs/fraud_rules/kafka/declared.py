"""Parses the declaration of all topics, `config/topics.yaml`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from fraud_rules.configuration.topic_names import TopicNames, load_topic_names, role_of
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.yaml_file import read_yaml

REPLICATION: Final = "replication.factor"
"""The name of the number of copies among the settings of a topic."""

TIMESTAMP_TYPE: Final = "message.timestamp.type"
"""The name of the setting that chooses the clock of a topic."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_RETENTION = re.compile(r"([1-9][0-9]{0,12})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS = MappingProxyType({"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000})
_MEMBERS = frozenset({"name", "partitions", "retention", "cleanup", "timestamp", "max_record", "kafka", "external"})
_EXTERNAL_MEMBERS = frozenset({"name", "external"})
_Choice = TypeVar("_Choice", bound=StrEnum)

_MAX_PARTITIONS = 10_000
_MAX_REPLICATION = 100
_MAX_RECORD_BYTES = 2**30


class Cleanup(StrEnum):
    """Kafka's cleanup policies."""

    DELETE = "delete"
    COMPACT = "compact"


class Timestamp(StrEnum):
    """The clock of a record's timestamp: the broker's (append) or the producer's (create)."""

    APPEND = "append"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Topic:
    """A declared topic. `settings` are further settings by Kafka's names.

    `retention_ms` None means unlimited retention. `replication` 0 and `max_record_bytes` 0 mean the broker's default.
    `left` names the settings that stay as the cluster has them. An `external` topic belongs to others: the declaration
    says nothing about it but what the detector requires.
    """

    name: str
    partitions: int
    retention_ms: int | None = None
    cleanup: Cleanup = Cleanup.DELETE
    timestamp: Timestamp = Timestamp.APPEND
    max_record_bytes: int = 0
    replication: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    left: frozenset[str] = frozenset()
    external: bool = False

    def without(self, settings: Iterable[str]) -> Topic:
        """The topic with these settings, by Kafka's names, as the cluster has them."""
        left = self.left | frozenset(settings)
        return replace(self, left=left, replication=0 if REPLICATION in left else self.replication)

    @property
    def kafka_settings(self) -> dict[str, str]:
        """The settings by Kafka's names, as text."""
        if self.external:
            return {TIMESTAMP_TYPE: "LogAppendTime"}
        settings = {
            "cleanup.policy": self.cleanup.value,
            "retention.ms": str(-1 if self.retention_ms is None else self.retention_ms),
            # No declared topic is bounded by size.
            "retention.bytes": "-1",
            TIMESTAMP_TYPE: "LogAppendTime" if self.timestamp is Timestamp.APPEND else "CreateTime",
        }
        if self.max_record_bytes:
            settings["max.message.bytes"] = str(self.max_record_bytes)
        settings |= dict(self.settings)
        return {name: value for name, value in settings.items() if name not in self.left}


def load_topics(path: Path, prefix: str = "", environ: Mapping[str, str] = os.environ) -> tuple[Topic, ...]:
    """Read the declaration. `prefix` precedes every name. Raises ConfigError with every fault.

    A topic gets the name that the detector's settings give its role, see `topic_names`.
    """
    document = read_yaml(path)
    if not isinstance(document, dict) or not isinstance(document.get("topics"), dict) or not document["topics"]:
        raise ConfigError(f"{path}: must be a mapping with `topics`, by name")
    faults = [f"{name} is unknown" for name in document if name not in {"topics", "replication"}]
    replication = _whole(document.get("replication", 0), 0, _MAX_REPLICATION, "replication", faults)
    names = load_topic_names(path, environ)
    topics = tuple(
        _topic(f"{prefix}{_name(declared, members, names)}", members, replication, faults)
        for declared, members in document["topics"].items()
    )
    if faults:
        raise ConfigError(f"{path}: " + "; ".join(faults))
    return topics


def _name(declared: object, members: Any, names: TopicNames) -> str:
    role = role_of(str(declared))
    if role is not None:
        return str(getattr(names, role))
    return str(members.get("name", declared)) if isinstance(members, Mapping) else str(declared)


def _topic(name: str, members: Any, replication: int, faults: list[str]) -> Topic:
    """Build a topic from its members. Add every fault to `faults`."""
    if not _NAME.fullmatch(name):
        faults.append(f"{name[:60]!r} is not a topic name")
    if not isinstance(members, Mapping):
        faults.append(f"{name} must be a mapping")
        return Topic(name, 1)
    external = members.get("external", False)
    if not isinstance(external, bool):
        faults.append(f"{name}.external must be true or false")
    if external is True:
        others = ", ".join(str(member) for member in members if member not in _EXTERNAL_MEMBERS)
        faults += [f"{name}: {others} beside `external: true`, which leaves the topic to its owner"] if others else []
        return Topic(name, 1, external=True)
    faults += [f"{name}.{member} is unknown" for member in members if member not in _MEMBERS]
    return Topic(
        name=name,
        partitions=_whole(members.get("partitions"), 1, _MAX_PARTITIONS, f"{name}.partitions", faults),
        retention_ms=_retention(members.get("retention"), f"{name}.retention", faults),
        cleanup=_one_of(Cleanup, members.get("cleanup", "delete"), f"{name}.cleanup", faults),
        timestamp=_one_of(Timestamp, members.get("timestamp", "append"), f"{name}.timestamp", faults),
        max_record_bytes=_whole(members.get("max_record", 0), 0, _MAX_RECORD_BYTES, f"{name}.max_record", faults),
        replication=replication,
        settings=_settings(members.get("kafka", {}), f"{name}.kafka", faults),
    )


def _whole(value: Any, low: int, high: int, where: str, faults: list[str]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    faults.append(f"{where} must be a whole number from {low} to {high}")
    return low


def _retention(value: Any, where: str, faults: list[str]) -> int | None:
    if value == "forever":
        return None
    match = _RETENTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        faults.append(f"{where} must be `forever` or a number with ms, s, m, h or d")
        return None
    return int(match[1]) * _UNIT_MS[match[2]]


def _one_of(kind: type[_Choice], value: Any, where: str, faults: list[str]) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        faults.append(f"{where} must be one of {', '.join(kind)}")
        return next(iter(kind))


def _settings(value: Any, where: str, faults: list[str]) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping) and all(isinstance(setting, str | int | float) for setting in value.values()):
        return tuple((str(name), str(setting)) for name, setting in value.items())
    faults.append(f"{where} must be a mapping of names to plain values")
    return ()

"""What the product does without the settings that a cluster refuses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Final

from fraud_rules.configuration.topic_names import TopicNames
from fraud_rules.kafka.declared import REPLICATION
from fraud_rules.kafka.managed.unsupported import UnsupportedSetting

_CLUSTERS_VALUE: Final = "the cluster's value applies"
_COMPACTED_LATER: Final = "the cluster's value applies: Kafka compacts later, so a start reads more records"
_REFUSES: Final = "the detector refuses to start (TOPIC_UNSUITABLE)"

_OF_SETTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "": "create it with the provider's tools and the values of `fraud kafka topics print`; until then, each "
        "program that uses it reports it as missing",
        REPLICATION: "the cluster's number of copies applies",
        "message.timestamp.type": "records have the times of their writers' clocks, and so have the ages that "
        "`fraud status`, alarms and the archive derive from them; declare `timestamp: create`",
        "cleanup.policy": "Kafka keeps all records until the retention removes them, so the topic grows",
        "max.message.bytes": "the cluster refuses records above its own limit; declare that limit as `max_record`",
        "retention.ms": "the cluster's retention applies, so records may disappear earlier; declare it as `retention`",
        "retention.bytes": "Kafka may remove records by size, before the declared retention",
        "segment.bytes": _COMPACTED_LATER,
        "segment.ms": _COMPACTED_LATER,
        "min.cleanable.dirty.ratio": _COMPACTED_LATER,
        "delete.retention.ms": "a start that reads for longer than the cluster's value may miss tombstones, and keep "
        "records that were deleted until the next compaction",
    }
)

_OF_ROLE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        **{
            (role, "message.timestamp.type"): f"{_REFUSES}, unless config/detector.yaml has `producer_times: true`: "
            "rules then apply by the producers' clocks, and a wrong clock makes payments late"
            for role in ("transactions", "rules")
        },
        **{(role, "cleanup.policy"): _REFUSES for role in ("detector_state", "detector_marker")},
        **{
            (role, "max.message.bytes"): f"{_REFUSES} if the cluster's limit is below the declared one"
            for role in ("detector_state", "warm_ups", "quarantine")
        },
        ("rules", "retention.ms"): f"{_REFUSES} once Kafka has removed a record of the rule log",
        ("detector_progress", "retention.ms"): "a rebuild cannot begin before the oldest remaining record",
    }
)


def consequence(setting: UnsupportedSetting, names: TopicNames) -> str:
    """The consequence of a setting that the cluster refuses, and what to declare instead."""
    role = next((each.name for each in fields(TopicNames) if getattr(names, each.name) == setting.topic), "")
    return _OF_ROLE.get((role, setting.setting)) or _OF_SETTING.get(setting.setting, _CLUSTERS_VALUE)

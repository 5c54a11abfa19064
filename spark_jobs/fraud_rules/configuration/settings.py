"""The detector's settings: the file `config/detector.yaml`, with environment variables that override it.

FRAUD_KEY_GROUPS overrides `key_groups`, and so on. An error reports every wrong key and value at once. This module
defines the defaults. The file `topics.yaml` in the same folder names the topics.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from fraud_rules.configuration.settings_file import NAME, NAME_IS, bounded, matching, read_settings, settable
from fraud_rules.configuration.topic_names import (
    ENV_PREFIX,
    TOPICS_FILE,
    TopicNames,
    load_topic_names,
    names_used_twice,
)
from fraud_rules.errors import ConfigError
from fraud_rules.model.decision import DecisionThresholds
from fraud_rules.model.limits import RecordLimits, RuleLimits, constant
from fraud_rules.runtime.yaml_file import read_yaml

__all__ = ["ENV_PREFIX", "DecisionSettings", "DetectorSettings", "HealthSettings", "RuleLimits", "TopicNames"]


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The limits for alarms about a detector.

    A start counts as stalled after `starting_ms` without progress, and a running detector after `stalled_ms`. Both
    limits double with each failed start in a row. `lag` is in transactions. A detector counts as unsupervised after
    `unsupervised_ms` without an observation.

    The shares of late and of quarantined records have limits. A detector counts as blind after `silent_ms` without a
    transaction (0: no limit). A producer whose transaction hides records of an input
    topic for `open_transaction_ms` counts as hung.
    """

    starting_ms: int = bounded(180_000, 1_000, 86_400_000)
    stalled_ms: int = bounded(40_000, 1_000, 86_400_000)
    lag: int = bounded(100_000, 1, 2**53)
    unsupervised_ms: int = bounded(120_000, 0, 86_400_000)
    quarantined_percent: int = bounded(20, 1, 100)
    late_percent: int = bounded(20, 1, 100)
    silent_ms: int = bounded(86_400_000, 0, 31_536_000_000)
    open_transaction_ms: int = bounded(30_000, 10_000, 86_400_000)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent's time limits.

    The agent ends the check of a release, or the start of a held driver, after `check_ms` without progress. This limit
    doubles with each failure in a row. The agent kills a detector that has not ended `drain_ms` after the request to
    drain. `heartbeat_ms` is the interval of heartbeats.
    """

    check_ms: int = bounded(120_000, 1_000, 86_400_000)
    drain_ms: int = bounded(60_000, 1_000, 3_600_000)
    heartbeat_ms: int = bounded(5_000, 100, 10_000)


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """The lowest scores of the outcomes `DECLINE` and `REVIEW`. `review` is at most `decline`."""

    decline: int = bounded(100, 1, 1_000_000)
    review: int = bounded(50, 1, 1_000_000)

    @property
    def thresholds(self) -> DecisionThresholds:
        """The thresholds in the form that decisions need."""
        return DecisionThresholds(self.decline, self.review)


_FOLDER = re.compile(r"|/[^\0\n]*")
_LIMITS = RuleLimits()
_DECISIONS = DecisionSettings()
_AGENT = AgentSettings()
_HEALTH = HealthSettings()
_TOPICS = TopicNames()
_SUPERVISION_SETTINGS = {"health", "agent"}
"""The settings that a release excludes."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Validated settings. Times are in milliseconds, and sizes in bytes. `config/detector.yaml` describes each setting.

    `detector` is the detector's name. It determines the transactional id, so that a second detector with the same name
    fences the first. The first start fixes `key_groups`, and a rebuild changes it. An idle detector runs a batch every
    `tick_ms`.
    `state_budget_bytes` bounds the state of all rules, estimated with `state_bytes_per_event`, and `cpu_budget_ns`
    bounds the estimated CPU time of all rules for each transaction (see `engine.admission`).
    `row_output_bytes` is the size above which a task sends an output to the driver itself. `views_folder` is the folder
    of the views on each worker host. `evaluations` also writes evaluations without an alert, for debugging.
    `producer_times` accepts the timestamps of producers as append times. `trace_headers` copies the headers of a trace
    from a transaction to its alerts.
    """

    detector: str = matching("detector", NAME, NAME_IS)
    key_groups: int = bounded(2, 1, 4_096)
    max_out_of_orderness_ms: int = bounded(300_000, 0, 86_400_000)
    future_tolerance_ms: int = bounded(300_000, 0, 86_400_000)
    event_time_floor_ms: int = bounded(946_684_800_000, 0, 4_102_444_800_000)
    tick_ms: int = bounded(10_000, 100, 20_000)
    max_offsets_per_trigger: int = bounded(200_000, 1, 100_000_000)
    max_transaction_bytes: int = bounded(1_048_576, 256, 104_857_600)
    state_budget_bytes: int = bounded(8_589_934_592, 1_048_576, 2**50)
    state_bytes_per_event: int = constant(320)
    cpu_budget_ns: int = bounded(1_000_000, 1_000, 10**9)
    row_output_bytes: int = bounded(16_777_216, 1_024, 2**31)
    views_folder: str = matching("", _FOLDER, "an absolute path, or empty for the temporary folder")
    evaluations: bool = False
    producer_times: bool = False
    trace_headers: bool = False
    limits: RuleLimits = _LIMITS
    decisions: DecisionSettings = _DECISIONS
    health: HealthSettings = _HEALTH
    agent: AgentSettings = _AGENT
    topics: TopicNames = _TOPICS

    @property
    def record_limits(self) -> RecordLimits:
        """The bounds on a transaction record, in the form that the codec needs."""
        return RecordLimits(self.future_tolerance_ms, self.event_time_floor_ms, self.max_transaction_bytes)

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> DetectorSettings:
        """Read the settings file, overridden by the environment. Raises ConfigError with all faults of both.

        The names of topics come from `topics.yaml` in the same folder. A settings file contains the names itself only
        if its folder has no `topics.yaml`, as with the files that `text` formats.
        """
        document = read_yaml(path)
        document = {} if document is None else document
        declaration = path.with_name(TOPICS_FILE)
        if isinstance(document, Mapping) and declaration.exists():
            if "topics" in document:
                raise ConfigError(f"{path}: topics are named in {declaration} (`name`), not here")
            document = {**document, "topics": asdict(load_topic_names(declaration, environ))}
        return cls.parse(document, environ, str(path))

    def text(self) -> str:
        """Format the settings, including the names of topics, as the text of a file for `load`.

        The text excludes `health` and `agent`, because a release does not depend on the limits of its supervision.
        """
        known = settable(type(self)).keys() - _SUPERVISION_SETTINGS
        own = {name: value for name, value in asdict(self).items() if name in known}
        own["limits"] = {name: getattr(self.limits, name) for name in settable(RuleLimits)}
        return yaml.safe_dump(own, sort_keys=False)

    @classmethod
    def parse(cls, document: object, environ: Mapping[str, str], where: str = "settings") -> DetectorSettings:
        """Build settings from a decoded document and the environment. `where` names the document in errors."""
        faults: list[str] = []
        settings = cls(**read_settings(cls, document, environ, ENV_PREFIX, faults))
        if not faults:
            faults += names_used_twice(settings.topics)
            faults += _crossed_thresholds(settings.decisions)
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return settings


def _crossed_thresholds(decisions: DecisionSettings) -> list[str]:
    """Report thresholds with which no score could have the outcome REVIEW."""
    if decisions.review <= decisions.decline:
        return []
    return [f"decisions.review is {decisions.review}, but must be at most decisions.decline, {decisions.decline}"]

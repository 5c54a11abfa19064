"""Alarms and silences, as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from fraud_ops.runbooks import runbook_path
from fraud_rules.errors import ConfigError

ALL = "*"

REPEAT_MS: Final = 3_600_000
"""How long a standing alarm is quiet before it is sent again."""

_NAME_CHARS: Final = 64
_PART_CHARS: Final = 256
_TEXT_CHARS: Final = 4_000
_LINK_CHARS: Final = 2_000
_MOST_RECEIVERS: Final = 10


class AlarmSeverity(StrEnum):
    """CRITICAL: payments may pass without an evaluation, or records can no longer be trusted. WARNING: the rest."""

    CRITICAL = "critical"
    WARNING = "warning"


_WARNINGS: Final = frozenset(
    {
        "ALERT_FLOOD", "CLOCK_SKEW", "DAYS_MISSED", "DEADLINE", "DRIFT", "FIELD_NULL", "LAGGING", "MIXED_RELEASES",
        "OUTBOX_STUCK", "READER_STUCK", "RECEIVER_FAILING", "REFUSED", "RULE_OFF_PREDICTION", "RULE_RATE",
        "RULE_UNMATCHED", "TASK_FAILED",
    }
)  # fmt: skip


def severity_of(name: str) -> AlarmSeverity:
    """The severity of an alarm by its name. An unknown name is critical."""
    return AlarmSeverity.WARNING if name in _WARNINGS else AlarmSeverity.CRITICAL


@dataclass(frozen=True, slots=True)
class Alarm:
    """A message to operators. `name` is a verdict, or another name that has a runbook. `source` is the URL of the run.
    `resolved` is true if the message reports the end of the alarm. `part` is what the alarm is about, such as a rule or
    a task; it is empty for the whole detector."""

    name: str
    detector: str
    said: str
    source: str = ""
    resolved: bool = False
    part: str = ""

    @property
    def subject(self) -> str:
        """The subject line of a mail."""
        return f"[fraud] {'resolved: ' if self.resolved else ''}{self.name} ({self.detector})"

    def document(self, base_url: str) -> dict[str, Any]:
        """The JSON document for a webhook. `base_url` is the address of Airflow."""
        return {
            **asdict(self),
            "severity": severity_of(self.name).value,
            "text": f"{self.subject} {self.said}",
            "runbook": base_url + runbook_path(self.name),
        }


@dataclass(frozen=True, slots=True)
class RaisedAlarm:
    """An alarm, and the names of the connections that have accepted it without the outbox of the control plane."""

    alarm: Alarm
    receivers: tuple[str, ...] = ()


class _AlarmRecord(msgspec.Struct, frozen=True):
    """The record of the topic `alarms`."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=_NAME_CHARS)]
    detector: Annotated[str, msgspec.Meta(max_length=_PART_CHARS)]
    said: Annotated[str, msgspec.Meta(max_length=_TEXT_CHARS)]
    source: Annotated[str, msgspec.Meta(max_length=_LINK_CHARS)]
    resolved: bool
    part: Annotated[str, msgspec.Meta(max_length=_PART_CHARS)]
    receivers: Annotated[tuple[str, ...], msgspec.Meta(max_length=_MOST_RECEIVERS)]


def encode_alarm(raised: RaisedAlarm) -> bytes:
    """Encode a record of the topic `alarms`. Long texts are cut."""
    alarm = raised.alarm
    record = _AlarmRecord(
        alarm.name[:_NAME_CHARS],
        alarm.detector[:_PART_CHARS],
        alarm.said[:_TEXT_CHARS],
        alarm.source[:_LINK_CHARS],
        alarm.resolved,
        alarm.part[:_PART_CHARS],
        raised.receivers,
    )
    return msgspec.json.encode(record)


def decode_alarm(value: bytes) -> RaisedAlarm:
    """Decode a record of the topic `alarms`. Raises msgspec.ValidationError or another error of `UNDECODABLE`."""
    found = msgspec.json.decode(value, type=_AlarmRecord)
    alarm = Alarm(found.name, found.detector, found.said, found.source, found.resolved, found.part)
    return RaisedAlarm(alarm, found.receivers)


@dataclass(frozen=True, slots=True)
class Silence:
    """No alarm with this name (`*` for all) is sent before the time `until`."""

    name: str
    until: datetime
    reason: str


def read_silences(text: str) -> Sequence[Silence]:
    """Silences from JSON: `[{"alarm": "LAGGING", "until": "2026-01-31T12:00:00Z", "reason": "..."}]`.

    Raises ConfigError: an unreadable silence must not silence any alarm.
    """
    try:
        return [
            Silence(str(each["alarm"]), _time(str(each["until"])), str(each["reason"])) for each in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the silences are unreadable ({error!r}): each needs alarm, until and reason") from error


def silenced(alarm: Alarm, silences: Sequence[Silence], now: datetime) -> Silence | None:
    """The silence that covers an alarm; None without one."""
    return next((each for each in silences if each.name in (ALL, alarm.name) and now < each.until), None)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

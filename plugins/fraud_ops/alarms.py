"""Alarms and silences, as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from fraud_ops.airflow_ui.runbooks import runbook_path
from fraud_rules.errors import ConfigError

__all__ = ["ALL", "Alarm", "Silence", "read_silences", "silenced"]

ALL = "*"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A message to operators. `name` is a verdict, or another name that has a runbook. `source` is the URL of the run.
    `resolved` is true if the message reports the end of the alarm."""

    name: str
    detector: str
    said: str
    source: str = ""
    resolved: bool = False

    @property
    def subject(self) -> str:
        """The subject line of a mail."""
        return f"[fraud] {'resolved: ' if self.resolved else ''}{self.name} ({self.detector})"

    def document(self, base_url: str) -> dict[str, Any]:
        """The JSON document for a webhook. `base_url` is the address of Airflow."""
        return {**asdict(self), "text": f"{self.subject} {self.said}", "runbook": base_url + runbook_path(self.name)}


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

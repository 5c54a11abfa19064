"""What people are told: an alarm is a value, and whether it is silenced a pure question."""

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
    """`name` is a verdict or what else has a runbook. `resolved` says that it is over; `source` leads to the run."""

    name: str
    detector: str
    said: str
    source: str = ""
    resolved: bool = False

    @property
    def subject(self) -> str:
        """One line for a mail."""
        return f"[fraud] {'resolved: ' if self.resolved else ''}{self.name} ({self.detector})"

    def document(self, base_url: str) -> dict[str, Any]:
        """For a webhook; `base_url` is Airflow's own."""
        return {**asdict(self), "text": f"{self.subject} {self.said}", "runbook": base_url + runbook_path(self.name)}


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody is told of alarms of a name (`*` for all) until a time."""

    name: str
    until: datetime
    reason: str


def read_silences(text: str) -> Sequence[Silence]:
    """Silences from JSON: `[{"alarm": "LAGGING", "until": "2026-01-31T12:00:00Z", "reason": "..."}]`.

    Raises ConfigError: a silence that cannot be read must not silence anything.
    """
    try:
        return [
            Silence(str(each["alarm"]), _time(str(each["until"])), str(each["reason"])) for each in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the silences cannot be read ({error!r}): give alarm, until and reason of each") from error


def silenced(alarm: Alarm, silences: Sequence[Silence], now: datetime) -> Silence | None:
    """The silence that covers an alarm."""
    return next((each for each in silences if each.name in (ALL, alarm.name) and now < each.until), None)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

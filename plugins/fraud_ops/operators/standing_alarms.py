"""Alarms of a task that runs again and again: sent once, repeated slowly, and resolved when the check finds no fault.

The XComs of the task remember what it has raised, so a restart of Airflow neither repeats an alarm nor forgets its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fraud_ops.alarms import REPEAT_MS, Alarm
from fraud_ops.hooks.alarms import AlarmHook
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["Raised", "StandingAlarms", "changes"]

_KEY: Final = "standing_alarms"


class Raised(msgspec.Struct, frozen=True):
    """A standing alarm, and when it was sent last, in epoch ms."""

    name: str
    detector: str
    part: str
    sent_ms: int


def changes(
    known: Mapping[str, Raised], found: Mapping[str, Alarm], at_ms: int
) -> tuple[list[Alarm], dict[str, Raised]]:
    """The alarms to send now, and what stands after them. The keys say which alarms are the same one."""
    due = {key for key in found if key not in known or at_ms - known[key].sent_ms >= REPEAT_MS}
    ended = [
        Alarm(each.name, each.detector, "the check finds no fault", resolved=True, part=each.part)
        for key, each in known.items()
        if key not in found
    ]
    after = {
        key: Raised(alarm.name, alarm.detector, alarm.part, at_ms if key in due else known[key].sent_ms)
        for key, alarm in found.items()
    }
    return [*(found[key] for key in found if key in due), *ended], after


class StandingAlarms:
    """The alarms of one task of a scheduled DAG. `task_id` is the task that remembers them."""

    def __init__(self, context: Context, task_id: str, send: Callable[[Alarm], Any] | None = None) -> None:
        self._ti = context["ti"]
        self._task_id = task_id
        self._send = send or AlarmHook().raise_alarm

    def report(self, found: Mapping[str, Alarm]) -> None:
        """Send the new alarms and those that are due again, and report the end of the others."""
        # Without `map_indexes`, Airflow returns a list if two earlier runs have pushed a value.
        text = self._ti.xcom_pull(task_ids=self._task_id, key=_KEY, include_prior_dates=True, map_indexes=-1)
        known = msgspec.json.decode(text, type=dict[str, Raised]) if text else {}
        sending, after = changes(known, found, now_ms())
        for alarm in sending:
            self._send(alarm)
        self._ti.xcom_push(key=_KEY, value=msgspec.json.encode(after).decode())

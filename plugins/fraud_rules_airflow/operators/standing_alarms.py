"""Alarms of a task that runs again and again. It reports each alarm at each run, and its end when the check finds no
fault. The control plane decides which reports are news.

The XComs of the task remember its alarms, so that it reports their ends. Without Kafka, they also tell which alarms
were sent directly, and when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from fraud_ops.alarms import REPEAT_MS, Alarm, RaisedAlarm
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.hooks.alarms import AlarmHook

if TYPE_CHECKING:
    from airflow.sdk import Context

_KEY: Final = "reported_alarms"


class AlarmChannel(Protocol):
    """Reports alarms to the control plane, or sends them directly, see `AlarmHook`."""

    def append(self, reports: Sequence[RaisedAlarm]) -> bool:
        """Report alarms; return whether Kafka has all reports."""

    def send(self, alarm: Alarm) -> Sequence[str]:
        """Send an alarm directly; return the connections that accepted it."""


class ReportedAlarm(msgspec.Struct, frozen=True):
    """A standing alarm. `at_ms` is the time of its last report or message; `receivers` are the connections that got it
    directly, of which the control plane does not know yet."""

    name: str
    detector: str
    part: str
    at_ms: int
    receivers: tuple[str, ...] = ()


def report_alarms(
    channel: AlarmChannel, known: Mapping[str, ReportedAlarm], found: Mapping[str, Alarm], ended: str, at_ms: int
) -> dict[str, ReportedAlarm]:
    """Report what stands and what has ended, with the text `ended`, and return what the next run must know. The keys
    say which alarms are the same one. Without Kafka, only new alarms are sent, and ends wait for a later run.
    """
    ends = [
        RaisedAlarm(Alarm(each.name, each.detector, ended, resolved=True, part=each.part), each.receivers)
        for key, each in known.items()
        if key not in found
    ]
    standing = [RaisedAlarm(alarm, known[key].receivers if key in known else ()) for key, alarm in found.items()]
    if not ends and not standing:
        return {}
    if channel.append([*ends, *standing]):
        return {key: ReportedAlarm(each.name, each.detector, each.part, at_ms) for key, each in found.items()}
    after = dict(known)
    for key, alarm in found.items():
        if key not in known or at_ms - known[key].at_ms >= REPEAT_MS:
            receivers = tuple(channel.send(alarm))
            if receivers:
                after[key] = ReportedAlarm(alarm.name, alarm.detector, alarm.part, at_ms, receivers)
    return after


class StandingAlarms:
    """The alarms of one task of a scheduled DAG. `task_id` is the task that remembers them, in the XCom `key`, and
    `kafka_conn_id` the connection by which it reports them."""

    def __init__(self, context: Context, task_id: str, kafka_conn_id: str, key: str = _KEY) -> None:
        self._ti = context["ti"]
        self._task_id = task_id
        self._kafka_conn_id = kafka_conn_id
        self._key = key

    def report(self, found: Mapping[str, Alarm], ended: str = "the check finds no fault") -> None:
        """Report the alarms that stand, and the end of the others with the text `ended`."""
        # Without `map_indexes`, Airflow returns a list if two earlier runs have pushed a value.
        text = self._ti.xcom_pull(task_ids=self._task_id, key=self._key, include_prior_dates=True, map_indexes=-1)
        known = msgspec.json.decode(text, type=dict[str, ReportedAlarm]) if text else {}
        after = report_alarms(AlarmHook(self._kafka_conn_id), known, found, ended, now_ms())
        if known or after:
            self._ti.xcom_push(key=self._key, value=msgspec.json.encode(after).decode())

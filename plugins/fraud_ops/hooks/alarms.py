"""Reports alarms to the topic `alarms`, and sends them by webhook and mail, through the connections that exist.

The control plane reads the topic, decides which reports are news, and delivers these. A process sends an alarm itself
only if it cannot reach Kafka, or the control plane its store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

import msgspec
from airflow.sdk import BaseHook, Connection, Variable
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_ops.airflow_ui.address import base_url
from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm, read_silences, silenced
from fraud_ops.hooks.connections import KAFKA, connection, kafka_of
from fraud_ops.hooks.http_post import post
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ConfigError, FraudError
from fraud_rules.kafka.record_writer import append_records

__all__ = ["MAIL", "SILENCES", "WEBHOOK", "AlarmHook"]

WEBHOOK = "fraud_webhook"
"""An HTTP connection. Its host is the URL that receives the JSON, its optional password is a bearer token."""

MAIL = "fraud_smtp"
"""An SMTP connection. Its extra has `from_email` and `to`."""

SILENCES = "fraud_silences"
"""An Airflow variable; see `alarms.read_silences`."""

_PAUSES_S: Final = (1.0, 2.0, 4.0)
"""The pauses between the attempts to send an alarm directly."""

_DIRECT_S: Final = 8.0
"""No attempt starts later. Airflow ends the callback of a failed task 20 s after the task, and the attempt to reach
Kafka has taken up to 5 s."""


class AlarmHook(BaseHook):
    """Reports and sends alarms. If one channel fails, the other still gets the alarm."""

    def raise_alarm(self, alarm: Alarm) -> None:
        """Report an alarm to the topic `alarms`. Without Kafka, send it directly. Never raises, so that the caller can
        continue.
        """
        if not self.append([RaisedAlarm(alarm)]):
            self.send(alarm)

    def append(self, reports: Sequence[RaisedAlarm]) -> bool:
        """Append reports to the topic `alarms`. Return whether Kafka has all of them. Never raises."""
        try:
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            records = [(each.alarm.name.encode(), encode_alarm(each)) for each in reports]
            append_records(kafka_of(connection(KAFKA)), settings.topics.alarms, records)
        except FraudError as error:
            self.log.warning("alarms cannot be reported to the control plane: %s", error)
            return False
        return True

    def send(self, alarm: Alarm) -> list[str]:
        """Send an alarm directly, with some attempts in 8 s, and return the channels that accepted it. Never raises."""
        if self._is_silenced(alarm):
            return []
        self.log.log(30, "%s %s", alarm.subject, alarm.said)
        waiting, began_s = self.receivers(), time.monotonic()
        if not waiting:
            self.log.warning("the alarm was not sent: create an Airflow connection %s or %s", WEBHOOK, MAIL)
        accepted: list[str] = []
        for pause_s in (*_PAUSES_S, None):
            accepted += [name for name in waiting if self._fault(name, self._channels()[name], alarm) is None]
            waiting = [name for name in waiting if name not in accepted]
            if not waiting or pause_s is None or time.monotonic() - began_s + pause_s > _DIRECT_S:
                break
            time.sleep(pause_s)
        return accepted

    def deliver(self, name: str, alarm: Alarm) -> str | None:
        """Send an alarm through one channel, and return the fault if it has not accepted the alarm; else None, also
        for a silenced alarm, and if the connection was deleted. Never raises.
        """
        send = self._channels().get(name)
        if send is None or not self._exists(name) or self._is_silenced(alarm):
            return None
        return self._fault(name, send, alarm)

    def receivers(self) -> list[str]:
        """The names of the connections that exist, which receive alarms."""
        return [name for name in (WEBHOOK, MAIL) if self._exists(name)]

    def _exists(self, conn_id: str) -> bool:
        try:
            self.get_connection(conn_id)
        except AirflowNotFoundException:
            return False
        return True

    def _channels(self) -> Mapping[str, Callable[[Connection, Alarm], str | None]]:
        return {WEBHOOK: self._post, MAIL: self._mail}

    def _is_silenced(self, alarm: Alarm) -> bool:
        try:
            silence = silenced(alarm, read_silences(Variable.get(SILENCES, default="[]")), datetime.now(UTC))
        except ConfigError as error:
            self.log.warning("no alarm is silenced: %s", error)
            return False
        if silence is not None:
            self.log.warning("%s: %s (silenced until %s: %s)", alarm.name, alarm.said, silence.until, silence.reason)
        return silence is not None

    def _fault(self, conn_id: str, send: Callable[[Connection, Alarm], str | None], alarm: Alarm) -> str | None:
        """Send an alarm, and return the fault. The text of an exception could contain a secret, so only its kind."""
        try:
            fault = send(self.get_connection(conn_id), alarm)
        except AirflowNotFoundException:
            fault = f"the Airflow connection {conn_id} does not exist"
        except ConfigError as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001 -- a channel may fail in any way, and the other one still gets the alarm
            fault = f"did not accept the alarm ({type(error).__name__})"
        if fault is not None:
            self.log.warning("%s: %s", conn_id, fault)
        return fault

    def _post(self, found: Connection, alarm: Alarm) -> str | None:
        headers = {"content-type": "application/json"}
        if found.password:
            headers["Authorization"] = f"Bearer {found.password}"
        return post(str(found.host), msgspec.json.encode(alarm.document(base_url())), headers)

    def _mail(self, found: Connection, alarm: Alarm) -> None:
        from airflow.providers.smtp.hooks.smtp import SmtpHook

        document = alarm.document(base_url())
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in document.items()
        )
        with SmtpHook(found.conn_id) as smtp:
            smtp.send_email_smtp(
                to=found.extra_dejson["to"], subject=alarm.subject, html_content=f"<table>{rows}</table>"
            )

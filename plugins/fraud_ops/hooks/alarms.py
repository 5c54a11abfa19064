"""Sends alarms by webhook and mail, through the connections that exist, unless the alarm is silenced.

The topic `alarms` gets each alarm of a task or a callback, which cannot reach the store of the control plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape

import httpx
from airflow.sdk import BaseHook, Connection, Variable, conf
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm, read_silences, silenced
from fraud_ops.hooks.connections import KAFKA, connection, kafka_of
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

_TIMEOUT_S = 10.0


class AlarmHook(BaseHook):
    """Sends alarms. If one channel fails, the other still gets the alarm."""

    def raise_alarm(self, alarm: Alarm) -> list[str]:
        """Send an alarm, append it to the topic `alarms`, and return the channels that accepted it.

        Never raises, so that the caller can continue.
        """
        accepted = self.send(alarm)
        try:
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            record = encode_alarm(RaisedAlarm(alarm, tuple(accepted)))
            append_records(kafka_of(connection(KAFKA)), settings.topics.alarms, [(alarm.name.encode(), record)])
        except FraudError as error:
            self.log.warning("the page Detector will not list this alarm: %s", error)
        return accepted

    def send(self, alarm: Alarm) -> list[str]:
        """Send an alarm and return the channels that accepted it. Never raises."""
        if self._is_silenced(alarm):
            return []
        self.log.log(30, "%s %s", alarm.subject, alarm.said)
        accepted = [name for name, send in self._channels().items() if self._fault(name, send, alarm) is None]
        if not accepted:
            self.log.warning("the alarm was not sent: create an Airflow connection %s or %s", WEBHOOK, MAIL)
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

    def _channels(self) -> Mapping[str, Callable[[Connection, Alarm], None]]:
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

    def _fault(self, conn_id: str, send: Callable[[Connection, Alarm], None], alarm: Alarm) -> str | None:
        """Send an alarm, and return the fault. The text of an exception could contain a secret, so only its kind."""
        try:
            send(self.get_connection(conn_id), alarm)
        except AirflowNotFoundException:
            return f"the Airflow connection {conn_id} does not exist"
        except Exception as error:  # noqa: BLE001 -- a channel may fail in any way, and the other one still gets the alarm
            self.log.warning("%s did not accept the alarm: %s", conn_id, type(error).__name__)
            return f"did not accept the alarm ({type(error).__name__})"
        return None

    def _post(self, found: Connection, alarm: Alarm) -> None:
        headers = {"Authorization": f"Bearer {found.password}"} if found.password else {}
        answer = httpx.post(str(found.host), json=alarm.document(_base_url()), headers=headers, timeout=_TIMEOUT_S)
        answer.raise_for_status()

    def _mail(self, found: Connection, alarm: Alarm) -> None:
        from airflow.providers.smtp.hooks.smtp import SmtpHook

        document = alarm.document(_base_url())
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in document.items()
        )
        with SmtpHook(found.conn_id) as smtp:
            smtp.send_email_smtp(
                to=found.extra_dejson["to"], subject=alarm.subject, html_content=f"<table>{rows}</table>"
            )


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")

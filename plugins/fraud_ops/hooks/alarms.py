"""Tells people: by webhook and by mail, whichever of the two connections exist, unless the alarm is silenced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape

import httpx
from airflow.sdk import BaseHook, Connection, Variable, conf
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_ops.alarms import Alarm, read_silences, silenced
from fraud_rules.errors import ConfigError

__all__ = ["MAIL", "SILENCES", "WEBHOOK", "AlarmHook"]

WEBHOOK = "fraud_webhook"
"""An HTTP connection: its host is the URL to post JSON to, its password (if any) a bearer token."""

MAIL = "fraud_smtp"
"""An SMTP connection, whose extra names `from_email` and `to`."""

SILENCES = "fraud_silences"
"""An Airflow variable; see `alarms.read_silences`."""

_TIMEOUT_S = 10.0


class AlarmHook(BaseHook):
    """One channel that fails does not keep an alarm from the other."""

    def raise_alarm(self, alarm: Alarm) -> list[str]:
        """Tell people, and return the channels by which they were told. Never raises: what it is about matters more."""
        try:
            silence = silenced(alarm, read_silences(Variable.get(SILENCES, default="[]")), datetime.now(UTC))
        except ConfigError as error:
            self.log.warning("nothing is silenced: %s", error)
            silence = None
        if silence is not None:
            self.log.warning("%s: %s (silenced until %s: %s)", alarm.name, alarm.said, silence.until, silence.reason)
            return []
        self.log.log(30, "%s %s", alarm.subject, alarm.said)
        channels: dict[str, Callable[[Connection, Alarm], None]] = {WEBHOOK: self._post, MAIL: self._mail}
        told = [name for name, tell in channels.items() if self._told(name, tell, alarm)]
        if not told:
            self.log.warning("nobody was told: make an Airflow connection %s or %s", WEBHOOK, MAIL)
        return told

    def _told(self, conn_id: str, tell: Callable[[Connection, Alarm], None], alarm: Alarm) -> bool:
        try:
            tell(self.get_connection(conn_id), alarm)
        except AirflowNotFoundException:
            return False
        except Exception as error:  # noqa: BLE001 -- a channel may fail in any way, and the other is still to be tried
            self.log.warning("%s did not take the alarm: %s", conn_id, type(error).__name__)
            return False
        return True

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

"""Sends alarms by webhook and mail, through the connections that exist."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final

import msgspec

from fraud_ops.alarms import Alarm, read_silences, silenced
from fraud_ops.delivery.connections import Connection, Find
from fraud_ops.delivery.http_post import post
from fraud_ops.delivery.mail import send_mail
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError

WEBHOOK: Final = "fraud_webhook"
"""An HTTP connection. Its host is the URL that receives the JSON, its optional password is a bearer token."""

MAIL: Final = "fraud_smtp"
"""An SMTP connection. Its extra has `from_email` and `to`."""

SILENCES: Final = "silences.json"
"""The file in the folder `config` with the silences; see `alarms.read_silences`. Each alarm reads it."""

_PAUSES_S: Final = (1.0, 2.0, 4.0)
"""The pauses between the attempts to send an alarm directly."""

_DIRECT_S: Final = 8.0
"""No attempt starts later. Airflow ends the callback of a failed task 20 s after the task, and the attempt to reach
Kafka has taken up to 5 s."""

_log = logging.getLogger(__name__)


class AlarmSender:
    """Sends alarms. If one channel fails, the other still gets the alarm. `base_url` is the address of Airflow,
    `silences` returns the content of the file with the silences.
    """

    def __init__(self, find: Find, base_url: str, silences: Callable[[], str] | None = None) -> None:
        self._find = find
        self._base_url = base_url
        self._silences = silences or _silences

    def send(self, alarm: Alarm) -> list[str]:
        """Send an alarm directly, with some attempts in 8 s, and return the channels that accepted it. Never raises."""
        if self._is_silenced(alarm):
            return []
        _log.warning("%s %s", alarm.subject, alarm.said)
        waiting, began_s = self.receivers(), time.monotonic()
        if not waiting:
            _log.warning("the alarm was not sent: create a connection %s or %s", WEBHOOK, MAIL)
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
            return self._find(conn_id) is not None
        except ConfigError:
            return True  # sending through it reports the fault

    def _is_silenced(self, alarm: Alarm) -> bool:
        try:
            silence = silenced(alarm, read_silences(self._silences()), datetime.now(UTC))
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            _log.warning("no alarm is silenced: %s", error)
            return False
        if silence is not None:
            _log.warning("%s: %s (silenced until %s: %s)", alarm.name, alarm.said, silence.until, silence.reason)
        return silence is not None

    def _channels(self) -> Mapping[str, Callable[[Connection, Alarm], str | None]]:
        return {WEBHOOK: self._post, MAIL: self._mail}

    def _fault(self, conn_id: str, send: Callable[[Connection, Alarm], str | None], alarm: Alarm) -> str | None:
        """Send an alarm, and return the fault. The text of an exception could contain a secret, so only its kind."""
        try:
            found = self._find(conn_id)
            fault = f"the connection {conn_id} does not exist" if found is None else send(found, alarm)
        except ConfigError as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001 -- a channel may fail in any way, and the other one still gets the alarm
            fault = f"did not accept the alarm ({type(error).__name__})"
        if fault is not None:
            _log.warning("%s: %s", conn_id, fault)
        return fault

    def _post(self, found: Connection, alarm: Alarm) -> str | None:
        headers = {"content-type": "application/json"}
        if found.password:
            headers["Authorization"] = f"Bearer {found.password}"
        return post(found.host, msgspec.json.encode(alarm.document(self._base_url)), headers)

    def _mail(self, found: Connection, alarm: Alarm) -> None:
        document = alarm.document(self._base_url)
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in document.items()
        )
        send_mail(found, alarm.subject, f"<table>{rows}</table>")


def _silences() -> str:
    path = Project.find().config / SILENCES
    return path.read_text("utf-8") if path.exists() else "[]"

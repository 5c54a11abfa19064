"""Sends mails by the server of a connection of type SMTP, with the members that Airflow's provider defines."""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import formatdate
from ssl import create_default_context
from typing import TYPE_CHECKING, Final

from fraud_ops.delivery.connections import Connection
from fraud_rules.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_S: Final = 10.0
_TLS_PORT: Final = 465


def send_mail(found: Connection, subject: str, html: str, headers: Mapping[str, str] | None = None) -> None:
    """Send a mail to the receivers in the connection's extra. Raises ConfigError, OSError, smtplib.SMTPException."""
    sender, to = found.extra.get("from_email"), found.extra.get("to")
    if not sender or not to:
        raise ConfigError(f"the extra of the connection {found.conn_id} needs from_email and to")
    message = EmailMessage()
    message["Subject"], message["From"], message["Date"] = " ".join(subject.split()), str(sender), formatdate()
    message["To"] = ", ".join(map(str, to)) if isinstance(to, list) else str(to)
    for name, value in (headers or {}).items():
        message[name] = value
    message.set_content(html, subtype="html")
    with _session(found) as smtp:
        smtp.send_message(message)


@contextmanager
def _session(found: Connection) -> Iterator[smtplib.SMTP]:
    """A session with the server. TLS is on unless the extra has `disable_ssl`; without it STARTTLS, unless
    `disable_tls`."""
    port = found.port or _TLS_PORT
    if _is_set(found, "disable_ssl"):
        smtp = smtplib.SMTP(found.host, port, timeout=_TIMEOUT_S)
        if not _is_set(found, "disable_tls"):
            smtp.starttls(context=create_default_context())
    else:
        smtp = smtplib.SMTP_SSL(found.host, port, timeout=_TIMEOUT_S, context=create_default_context())
    with smtp:
        if found.login:
            smtp.login(found.login, found.password)
        yield smtp


def _is_set(found: Connection, name: str) -> bool:
    return str(found.extra.get(name, "false")).lower() == "true"

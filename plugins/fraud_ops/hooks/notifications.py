"""Sends notifications to the receivers that Airflow connections describe.

A fault names the kind of the error only: an address, an answer or a text of an exception could contain a secret.
"""

from __future__ import annotations

import smtplib

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_ops.airflow_ui.address import base_url
from fraud_ops.hooks.http_post import post
from fraud_ops.notifications import (
    Message,
    Receiver,
    ReceiverKind,
    mail_html,
    signing_keys,
    slack_body,
    webhook_body,
    webhook_headers,
)
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import MS_PER_S, now_ms

__all__ = ["NotificationHook"]


class NotificationHook(BaseHook):
    """Sends one message at a time. Several threads may use it."""

    def send(self, receiver: Receiver, message: Message) -> str | None:
        """Send a message. Return the fault, without secrets, if the receiver has not accepted it; else None."""
        send = {ReceiverKind.WEBHOOK: self._webhook, ReceiverKind.SLACK: self._slack, ReceiverKind.MAIL: self._mail}
        try:
            return send[receiver.kind](self.get_connection(receiver.connection_id), message)
        except AirflowNotFoundException:
            return f"the Airflow connection {receiver.connection_id} does not exist"
        except ConfigError as error:
            return str(error)
        except TimeoutError:
            return "the mail server did not answer in time"
        except smtplib.SMTPResponseException as error:
            return f"the mail server answered {error.smtp_code}"
        except Exception as error:  # noqa: BLE001 -- a receiver may fail in any way, and the message is sent again
            return f"cannot be reached ({type(error).__name__})"

    def exists(self, receiver: Receiver) -> bool:
        """Whether the connection of a receiver exists."""
        try:
            self.get_connection(receiver.connection_id)
        except AirflowNotFoundException:
            return False
        return True

    def _webhook(self, found: Connection, message: Message) -> str | None:
        body = webhook_body(message, base_url())
        keys = signing_keys(found.password or "")
        return post(str(found.host), body, webhook_headers(message.message_id, now_ms() // MS_PER_S, body, keys))

    def _slack(self, found: Connection, message: Message) -> str | None:
        body = slack_body(message, base_url())
        return post(str(found.password), body, {"content-type": "application/json"})

    def _mail(self, found: Connection, message: Message) -> None:
        from airflow.providers.smtp.hooks.smtp import SmtpHook

        to = found.extra_dejson.get("to")
        if not to:
            raise ConfigError(f"the extra of the connection {found.conn_id} needs from_email and to")
        with SmtpHook(found.conn_id) as smtp:
            smtp.send_email_smtp(
                to=to,
                subject=message.title,
                html_content=mail_html(message, base_url()),
                mime_subtype="alternative",
                custom_headers={"Message-ID": f"<{message.message_id}@fraud-rules>"},
            )

"""Sends notifications to their receivers.

A fault names the kind of the error only: an address, an answer or a text of an exception could contain a secret.
"""

from __future__ import annotations

import smtplib

from fraud_ops.delivery.connections import Connection, Find
from fraud_ops.delivery.http_post import post
from fraud_ops.delivery.mail import send_mail
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


class NotificationSender:
    """Sends one message at a time. Several threads may use it. `base_url` is the address of the pages' server."""

    def __init__(self, find: Find, base_url: str) -> None:
        self._find = find
        self._base_url = base_url

    def send(self, receiver: Receiver, message: Message) -> str | None:
        """Send a message. Return the fault, without secrets, if the receiver has not accepted it; else None."""
        send = {ReceiverKind.WEBHOOK: self._webhook, ReceiverKind.SLACK: self._slack, ReceiverKind.MAIL: self._mail}
        try:
            found = self._find(receiver.connection_id)
            if found is None:
                return f"the connection {receiver.connection_id} does not exist"
            return send[receiver.kind](found, message)
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
            return self._find(receiver.connection_id) is not None
        except ConfigError:
            return False

    def _webhook(self, found: Connection, message: Message) -> str | None:
        body = webhook_body(message, self._base_url)
        keys = signing_keys(found.password)
        return post(found.host, body, webhook_headers(message.message_id, now_ms() // MS_PER_S, body, keys))

    def _slack(self, found: Connection, message: Message) -> str | None:
        body = slack_body(message, self._base_url)
        return post(found.password, body, {"content-type": "application/json"})

    def _mail(self, found: Connection, message: Message) -> None:
        headers = {"Message-ID": f"<{message.message_id}@fraud-rules>"}
        send_mail(found, message.title, mail_html(message, self._base_url), headers)

"""Receivers of notifications, and the messages that they get, as values. Pure.

A webhook gets JSON with the signature of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over the id,
the time and the body, so that a receiver can reject forged and repeated messages.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from html import escape
from typing import Final

import msgspec

from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import utc

CONNECTION_PREFIX: Final = "fraud_notify_"
"""The beginning of the ids of the Airflow connections that can receive notifications."""

_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 -- the beginning of each secret
_KEY_BYTES: Final = range(24, 65)
_SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class ReceiverKind(StrEnum):
    """The protocol of a receiver."""

    WEBHOOK = "webhook"
    MAIL = "mail"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver by its name in the settings. Its address and secrets are in an Airflow connection."""

    name: str
    kind: ReceiverKind

    @property
    def connection_id(self) -> str:
        """The id of the Airflow connection."""
        return CONNECTION_PREFIX + self.name


@dataclass(frozen=True, slots=True)
class Message:
    """A notification. `message_id` stays the same when a message is sent again. `data` is JSON. `path` is the path of
    the page about the subject, on the server.
    """

    message_id: str
    type: str
    created_ms: int
    title: str
    text: str
    path: str
    data: bytes


def webhook_body(message: Message, base_url: str) -> bytes:
    """The JSON of a webhook. `base_url` is the address of Airflow."""
    return msgspec.json.encode(
        {
            "type": message.type,
            "timestamp": _time(message.created_ms),
            "title": message.title,
            "text": message.text,
            "url": base_url + message.path,
            "data": msgspec.Raw(message.data),
        }
    )


def webhook_headers(message_id: str, at_s: int, body: bytes, keys: Sequence[bytes]) -> Mapping[str, str]:
    """The headers of Standard Webhooks, with one signature per key. `at_s` is the time of sending, in epoch seconds."""
    signed = b".".join((message_id.encode(), str(at_s).encode(), body))
    signatures = (base64.b64encode(hmac.new(key, signed, sha256).digest()).decode() for key in keys)
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }


def signing_keys(secrets: str) -> Sequence[bytes]:
    """The keys of a webhook's secrets, which spaces separate: several while a secret is replaced.

    Raises ConfigError, which does not contain the secrets.
    """
    keys = [_key(each) for each in secrets.split()]
    if not keys:
        raise ConfigError("the connection needs a password: whsec_ and the base64 of 24 to 64 random bytes")
    return keys


def slack_body(message: Message, base_url: str) -> bytes:
    """The JSON of a webhook that is compatible with Slack."""
    title, text = message.title.translate(_SLACK_ESCAPES), message.text.translate(_SLACK_ESCAPES)
    return msgspec.json.encode({"text": f"*{title}*\n{text}\n<{base_url}{message.path}|Open>"})


def mail_html(message: Message, base_url: str) -> str:
    """The content of a mail."""
    lines = "<br>".join(map(escape, message.text.splitlines()))
    link = escape(base_url + message.path)
    return f'<p>{lines}</p><p><a href="{link}">{link}</a></p>'


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or len(key) not in _KEY_BYTES:
        raise ConfigError("the connection's password must be whsec_ and the base64 of 24 to 64 random bytes")
    return key


def _time(at_ms: int) -> str:
    return utc(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")

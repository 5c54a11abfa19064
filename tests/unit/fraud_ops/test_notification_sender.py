"""The messages that real receivers get, and the faults that the deliveries show: never with an address or a secret."""

from __future__ import annotations

import base64
import email
import email.policy
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from fraud_ops.delivery.connections import connection_in_environment
from fraud_ops.delivery.notifications import NotificationSender
from fraud_ops.notifications import Message, Receiver, ReceiverKind, signing_keys
from fraud_rules.errors import ConfigError
from tests.support.receivers.servers import HttpReceiver, Mailbox, MailServer

KEY = "marker-5d1e-" + "k" * 20
SECRET = "whsec_" + base64.b64encode(KEY.encode()).decode()
SENDER = NotificationSender(connection_in_environment, "https://airflow.example")
OLD_SECRET = "whsec_" + base64.b64encode(b"o" * 32).decode()
MESSAGE = Message(
    "5b0c6f9e-0000-4000-8000-000000000001",
    "alert",
    1_700_000_000_123,
    "[fraud] HIGH: A & B",
    "payeeId <7>: 21.5\nPayment 5",
    "/fraud/control/alerts?ruleId=1",
    b'{"triggeringValue":"21.50","limit":20.00000000000000000001}',
)


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReceiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HttpReceiver(tmp_path) as server:
        yield server


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_FRAUD_NOTIFY_{name.upper()}", json.dumps({"conn_type": "http", **members}))


def webhook(monkeypatch: pytest.MonkeyPatch, url: str, secret: str = SECRET) -> str | None:
    connect(monkeypatch, "desk", host=url, password=secret)
    return SENDER.send(Receiver("desk", ReceiverKind.WEBHOOK), MESSAGE)


def test_the_library_of_the_receiver_verifies_the_signature(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert webhook(monkeypatch, f"{receiver.url}/ok", f"{SECRET} {OLD_SECRET}") is None
    (request,) = receiver.requests()
    assert request["headers"]["webhook-id"] == MESSAGE.message_id
    for secret in (SECRET, OLD_SECRET):  # while a receiver changes its secret, both are valid
        found = Webhook(secret).verify(request["body"], request["headers"])
        assert found["type"] == "alert"
        assert found["timestamp"] == "2023-11-14T22:13:20.123Z"
        assert found["url"] == "https://airflow.example/fraud/control/alerts?ruleId=1"
    assert '"limit":20.00000000000000000001' in request["body"], "numbers keep all digits"
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(request["body"] + " ", request["headers"])
    old = {**request["headers"], "webhook-timestamp": str(int(time.time()) - 3_600)}
    with pytest.raises(Exception, match="too old"):
        Webhook(SECRET).verify(request["body"], old)


def test_slack_gets_text_without_markup_of_others(receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "chat", password=f"{receiver.url}/ok")
    assert SENDER.send(Receiver("chat", ReceiverKind.SLACK), MESSAGE) is None
    (request,) = receiver.requests()
    assert json.loads(request["body"]) == {
        "text": "*[fraud] HIGH: A &amp; B*\npayeeId &lt;7&gt;: 21.5\nPayment 5\n"
        "<https://airflow.example/fraud/control/alerts?ruleId=1|Open>"
    }


def test_a_mail_has_the_text_and_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox(refused=1)
    server = MailServer(mailbox)
    server.start()
    extra = {"from_email": "fraud@bank.example", "to": "desk@bank.example, b@bank.example", "timeout": 5}
    extra |= {"disable_ssl": True, "disable_tls": True, "retry_limit": 0}
    connect(monkeypatch, "mail", conn_type="smtp", host="127.0.0.1", port=server.port, extra=extra)
    try:
        hook, to = SENDER, Receiver("mail", ReceiverKind.MAIL)
        assert hook.send(to, MESSAGE) == "the mail server answered 451"
        assert hook.send(to, MESSAGE) is None
    finally:
        server.stop()
    (envelope,) = mailbox.mails
    assert envelope.rcpt_tos == ["desk@bank.example", "b@bank.example"]
    mail = email.message_from_bytes(envelope.original_content or b"", policy=email.policy.default)
    assert mail["Subject"] == MESSAGE.title
    assert MESSAGE.message_id in mail["Message-ID"]
    body = mail.get_body(("html",))
    assert body is not None
    assert "payeeId &lt;7&gt;: 21.5<br>Payment 5" in body.get_content()


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/status/500", "the receiver answered 500"),
        ("/status/204", None),
        ("/redirect", "the receiver answered 307"),
        ("/hang", "no answer within 1 s"),
        ("/drip", "no answer within 1 s"),
    ],
)
def test_a_receiver_that_fails_is_named_in_time(
    path: str, fault: str | None, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fraud_ops.delivery.http_post.TIMEOUT_S", 1.0)
    assert webhook(monkeypatch, receiver.url + path) == fault
    assert len(receiver.requests()) == 1, "a redirect is not followed"


def test_no_fault_and_no_log_has_the_address_or_the_secret(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    faults = [
        webhook(monkeypatch, f"{receiver.url}/ok?token={KEY}"),
        webhook(monkeypatch, f"{receiver.url}/status/403?token={KEY}"),
        webhook(monkeypatch, f"http://127.0.0.1:1/{KEY}"),
        webhook(monkeypatch, f"ftp://{KEY}/"),
        webhook(monkeypatch, f"http://{KEY}:nothing/"),
        webhook(monkeypatch, receiver.url, f"{KEY}"),
        webhook(monkeypatch, receiver.url, ""),
        SENDER.send(Receiver("none", ReceiverKind.SLACK), MESSAGE),
    ]
    shown = "\n".join([*map(str, faults), caplog.text])
    assert "marker-5d1e" not in shown
    assert SECRET not in shown
    assert "127.0.0.1" not in shown
    assert faults[0] is None
    assert faults[2] == "cannot be reached (ConnectError)"
    assert faults[-1] == "the connection fraud_notify_none does not exist"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!", base64.b64encode(b"k" * 32).decode()])
def test_a_short_or_malformed_secret_is_refused(secret: str) -> None:
    with pytest.raises(ConfigError, match="base64 of 24 to 64 random bytes"):
        signing_keys(secret)

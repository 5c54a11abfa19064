"""Alarms reach operators unless they are silenced, and a failed channel does not affect the sender."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fraud_ops.alarms import Alarm, decode_alarm, read_silences, silenced
from fraud_ops.delivery.alarms import AlarmSender
from fraud_ops.delivery.connections import connection_in_environment
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules_airflow.dags.options import DEFAULTS
from fraud_rules_airflow.hooks.alarms import AlarmHook
from tests.support.kafka.own_topics import OwnTopics
from tests.support.ports import free_ports
from tests.support.receivers.answering import Answer, Request, answering
from tests.support.receivers.servers import Mailbox, MailServer

TOPIC_ROLES = ("alarms",)

ALARM = Alarm("STALLED", "detector", "batch 7 ended 41 s ago", source="http://here/run")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Received:
    """A webhook: what was posted to it. It answers with each status in turn, and then with the last one again."""

    def __init__(self, *statuses: int) -> None:
        self.posts: list[tuple[dict[str, str], Any]] = []
        self._statuses = statuses

    def answer(self, request: Request) -> Answer:
        self.posts.append((request.headers, json.loads(request.body)))
        return self._statuses[min(len(self.posts), len(self._statuses)) - 1], b""


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    yield from serving(monkeypatch, 200)


@pytest.fixture
def broken_webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    yield from serving(monkeypatch, 503)


@pytest.fixture
def late_webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    yield from serving(monkeypatch, 503, 503, 200)


def serving(monkeypatch: pytest.MonkeyPatch, *statuses: int) -> Iterator[Received]:
    received = Received(*statuses)
    with answering(received.answer) as url:
        connection = {"conn_type": "http", "host": f"{url}/hook", "password": "t0ken"}
        monkeypatch.setenv("AIRFLOW_CONN_FRAUD_WEBHOOK", json.dumps(connection))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield received


def test_an_alarm_has_its_reason_and_its_runbook(webhook: Received) -> None:
    assert AlarmHook().send(ALARM) == ["fraud_webhook"]
    ((headers, document),) = webhook.posts
    assert headers["authorization"] == "Bearer t0ken"
    assert document["name"] == "STALLED"
    assert document["said"] == ALARM.said
    assert document["source"] == "http://here/run"
    assert document["runbook"].endswith("/fraud/runbooks/stalled")


def test_a_silence_suppresses_only_the_message(webhook: Received) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    silence = json.dumps([{"alarm": "LAGGING", "until": until, "reason": "catching up"}])
    sender = AlarmSender(connection_in_environment, "", lambda: silence)
    assert sender.send(Alarm("LAGGING", "detector", "far behind")) == []
    assert sender.send(ALARM) == ["fraud_webhook"]
    assert len(webhook.posts) == 1


def test_a_silence_that_cannot_be_read_silences_nothing(webhook: Received) -> None:
    assert AlarmSender(connection_in_environment, "", lambda: '[{"alarm": "*"}]').send(ALARM) == ["fraud_webhook"]


def test_a_channel_that_fails_is_no_error(broken_webhook: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_ops.delivery.alarms._PAUSES_S", (0.0, 0.0, 0.0))
    assert AlarmHook().send(ALARM) == []
    assert len(broken_webhook.posts) == 4, "a limited number of attempts"


def test_a_receiver_that_refuses_for_a_moment_gets_an_alarm_that_is_sent_directly(
    late_webhook: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka cannot be reached, so the task sends the alarm itself."""
    monkeypatch.setattr("fraud_ops.delivery.alarms._PAUSES_S", (0.1, 0.1, 0.1))
    nowhere = {"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_KAFKA", json.dumps(nowhere))
    AlarmHook().raise_alarm(ALARM)
    assert [document["name"] for _, document in late_webhook.posts] == ["STALLED"] * 3


class Ti:
    """A task instance and its run, as a callback reads them."""

    dag_id, task_id, run_id, map_index, log_url = "fraud_archive", "archive", "r1", -1, ""

    def __init__(self, before: str | None, *, try_number: int = 1, dated: bool = True) -> None:
        self.before, self.try_number = before, try_number
        self.logical_date = NOON if dated else None

    def get_previous_ti(self, map_index: int) -> SimpleNamespace | None:
        return None if self.before is None else SimpleNamespace(state=self.before)


@pytest.mark.parametrize(
    ("ti", "receivers"),
    [
        pytest.param(Ti("success"), None, id="no failure before"),
        pytest.param(Ti(None), None, id="the first run"),
        pytest.param(Ti("failed"), ("fraud_webhook",), id="the last run failed"),
        pytest.param(Ti("success", try_number=2), (), id="cleared or retried"),
        pytest.param(Ti("failed", dated=False), (), id="an earlier run is unknown"),
    ],
)
def test_the_success_of_a_task_ends_the_alarm_of_its_failure(
    webhook: Received, topics: OwnTopics, monkeypatch: pytest.MonkeyPatch, ti: Ti, receivers: tuple[str, ...] | None
) -> None:
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": topics.bootstrap}}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_KAFKA", json.dumps(kafka))
    monkeypatch.setenv("FRAUD_TOPICS_ALARMS", topics.names.alarms)
    (callback,) = DEFAULTS.default_args()["on_success_callback"]
    callback.notify({"ti": ti, "dag_run": ti})
    await_settled(topics.kafka, [topics.names.alarms])
    records = read_topic(topics.kafka, topics.names.alarms).get(0, ())
    reports = [decode_alarm(each.value or b"") for each in records]
    found = [(each.alarm.name, each.alarm.part, each.alarm.resolved, each.receivers) for each in reports]
    ended = ("TASK_FAILED", "fraud_archive.archive", True)
    assert found == ([] if receivers is None else [(*ended, receivers)])
    assert webhook.posts == [], "the control plane sends it"


def test_it_comes_by_mail_too(webhook: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox()
    server = MailServer(mailbox)
    server.start()
    extra = {"from_email": "airflow@bank.example", "to": "fraud@bank.example", "disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": server.hostname, "port": server.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_SMTP", json.dumps(connection))
    assert AlarmHook().send(ALARM) == ["fraud_webhook", "fraud_smtp"]
    server.stop()
    (mail,) = mailbox.mails
    assert mail.rcpt_tos == ["fraud@bank.example"]
    assert b"Subject: [fraud] STALLED (detector)" in (mail.original_content or b"")


@pytest.mark.parametrize(
    ("silence", "now", "covered"),
    [
        ("STALLED", NOON, True),
        ("*", NOON, True),
        ("DEAD", NOON, False),
        ("STALLED", NOON + timedelta(hours=2), False),
    ],
    ids=["of its name", "of all", "of another", "over"],
)
def test_silences(silence: str, now: datetime, *, covered: bool) -> None:
    text = json.dumps([{"alarm": silence, "until": "2026-01-31T13:00:00Z", "reason": "x"}])
    assert (silenced(ALARM, read_silences(text), now) is not None) is covered


def test_an_invalid_silence_is_refused() -> None:
    with pytest.raises(ConfigError, match="alarm, until and reason"):
        read_silences('[{"alarm": "*", "until": "soon", "reason": "x"}]')

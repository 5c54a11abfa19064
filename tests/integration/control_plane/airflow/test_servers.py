"""The control plane behind a real API server of Airflow's, over a real broker.

The tests are long: `web/test_rule_changes` shows that readers receive the changes of other processes, `web/test_feed`
that a reader continues at its position after a restart, and `test_outbox` that two publishers send each change once.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from itertools import cycle

import httpx
import pytest

from fraud_control.service.audit import verify
from fraud_control.store.database import Database
from fraud_local.airflow import Component
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.alerts import alert_json
from tests.support.control_plane.web.api_server import ApiServer
from tests.support.control_plane.web.server import RULE
from tests.support.control_plane.web.streams import StreamReader
from tests.support.waiting import until

pytestmark = pytest.mark.long

ALERTS_OF_OTHERS = 1_000
"""Other tests of the server have alerts with smaller numbers."""


@pytest.mark.timeout(600)
def test_a_rule_reaches_the_log_and_its_alerts_reach_the_page(served: ApiServer, configured: Broker) -> None:
    anonymous = httpx.get(f"{served.api}/me")
    assert (anonymous.status_code, anonymous.headers["content-type"]) == (401, "application/problem+json")
    runbook = httpx.get(f"{served.airflow.site.url}/fraud/runbooks/README", headers=served.headers())
    assert "<h1>" in runbook.text, "the other pages of the plugin still answer"

    assert session_of(served) == "admin"

    with served.stream() as reader:
        rule = served.ask("POST", "/rules", "anna", json={"document": RULE, "comment": "a first one"})
        assert rule.status_code == 201, rule.text
        rule_id = rule.json()["ruleId"]
        moved = served.ask(
            "POST",
            f"/rules/{rule_id}/state",
            "anna",
            json={"state": "SHADOW"},
            headers={"If-Match": rule.headers["etag"]},
        )
        assert moved.json()["state"] == "SHADOW"
        assert reader.await_event("rules").data["ruleId"] == rule_id
        version = until(lambda: _in_log(configured, rule_id), "the rule is in the log")
        until(lambda: _activation(served, rule_id) == ("PENDING", version[0]), "the page shows its version")
        append_records(configured.kafka, "rule-operations", [(b"1", _live(version[0], rule_id))])
        assert reader.await_event("operation").data["status"] == "LIVE"
        assert _activation(served, rule_id) == ("LIVE", version[0])

        first = ALERTS_OF_OTHERS + 1
        _alert(configured, first)
        assert len(reader.await_alerts(1)) == 1
        seen, last_id = reader.alerts(), reader.last_id
    for number in (1, 2, 3):
        _alert(configured, first + number)
    served.airflow.kill(Component.CONTROL_PLANE)
    served.start(Component.CONTROL_PLANE)
    _alert(configured, first + 4)
    with served.stream(last_id) as again:
        everything = seen + again.await_alerts(4)
    assert everything == [json.loads(alert_json(number))["alertId"] for number in range(first, first + 5)]
    listed = served.ask("GET", "/alerts", "anna").json()["items"]
    assert [each["alertId"] for each in listed][: len(everything)] == everything[::-1]


def session_of(served: ApiServer) -> str:
    """The user of a browser that opens the pages at their own server, by the way of Airflow's login."""
    site = served.airflow.site
    with httpx.Client(base_url=site.control_url) as browser:
        page = browser.get("/auth/login", params={"next": "/fraud/control/rules"})
        back = httpx.get(page.headers["location"], headers=served.headers())
        page = browser.get(back.headers["location"])
        assert page.headers["location"] == "/fraud/control/rules", page.text
        return str(browser.get("/fraud/control/api/me").json()["user"])


@pytest.mark.timeout(600)
def test_several_servers_are_one_control_plane(served: ApiServer, configured: Broker) -> None:
    """A reader of any server receives the changes of every server. The log has each change once."""
    with served.replica() as other, ExitStack() as stack:
        servers = (served, other)
        readers = [stack.enter_context(each.stream()) for each in servers]
        rules = range(101, 109)
        turns = list(zip(rules, cycle(servers), strict=False))
        made = [each.ask("POST", "/rules", json={"document": {**RULE, "ruleId": rule}}) for rule, each in turns]
        state = {"state": "SHADOW"}
        moved = [
            each.ask("POST", f"/rules/{rule}/state", json=state, headers={"If-Match": '"1"'}) for rule, each in turns
        ]
        expected = [201] * len(rules) + [200] * len(rules)
        assert [each.status_code for each in (*made, *moved)] == expected, [each.text for each in (*made, *moved)]
        until(lambda: all(_in_log(configured, rule) for rule in rules), "the rules are in the log")
        number = ALERTS_OF_OTHERS + 10
        _alert(configured, number)
        for reader in readers:
            assert reader.await_alerts(1) == [json.loads(alert_json(number))["alertId"]]
            until(lambda of=reader: _received_rules(of) >= set(rules), "a reader has received every rule")
        assert [len(_in_log(configured, rule)) for rule in rules] == [1] * len(rules)
    store = f"sqlite:///{served.airflow.site.home / 'control-plane.db'}"
    with closing(Database.open(store)) as database, database.reading() as session:
        verdict = verify(session)
    assert verdict.whole
    assert verdict.rows >= 2 * len(rules)


def _received_rules(reader: StreamReader) -> set[int]:
    """The rules whose changes a reader has received."""
    return {each.data["ruleId"] for each in list(reader.events) if each.name == "rules"}


def _in_log(broker: Broker, rule_id: int) -> list[int]:
    records = read_topic(broker.kafka, "rules")[0]
    return [each.offset for each in records if json.loads(each.value or b"{}").get("ruleId") == rule_id]


def _activation(served: ApiServer, rule_id: int) -> tuple[str, int] | None:
    found = served.ask("GET", f"/rules/{rule_id}").json()["activation"]
    return None if found is None else (found["status"], found["logVersion"])


def _live(version: int, rule_id: int) -> bytes:
    report = {"ruleId": rule_id, "ruleVersion": version, "status": "LIVE", "batchId": 1, "time": now_ms()}
    return json.dumps(report).encode()


def _alert(broker: Broker, number: int) -> None:
    append_records(broker.kafka, "alerts", [(b"k", alert_json(number))])

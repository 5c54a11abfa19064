"""Access to the routes: each request needs a login and a sufficient role."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from fastapi.routing import APIRoute

from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings, Rates
from fraud_ops.account import Account
from fraud_ops.paths import PAGES
from fraud_ops.tickets import HEADER, Ticket
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.web.server import RULE, Login, Server, settings_of_every_role
from tests.support.control_plane.web.ui_files import undriven_app
from tests.support.kafka.own_topics import OwnTopics, own_topics

ALERT = str(uuid.UUID(int=7))
TYPED = {"Content-Type": "application/json"}
IF_MATCH = {"If-Match": '"1"'}
SUBSCRIPTION = {"name": "Team", "receiver": "none", "events": ["alert"]}
FAR_AHEAD_MS = 4_000_000_000_000


class Route(NamedTuple):
    """`least` is the smallest sufficient role (None: every logged-in user), `status` the answer with an empty store."""

    method: str
    path: str
    least: Role | None
    status: int
    body: dict[str, Any] | None = None
    headers: Mapping[str, str] = MappingProxyType({})


VIEWER, AUDITOR, ANALYST, APPROVER, ADMIN = Role
ROUTES = [
    Route("GET", "/me", None, 200),
    Route("GET", "/openapi.json", None, 200),
    Route("GET", "/schema", VIEWER, 200),
    Route("GET", "/rules", VIEWER, 200),
    Route("POST", "/rules", ANALYST, 201, {"document": RULE}),
    Route("POST", "/rules/validate", ANALYST, 200, {"document": RULE}),
    Route("POST", "/rules/sample", ANALYST, 200, {"member": "filter", "text": "paymentAmount > 10"}),
    Route("GET", "/rules/7", VIEWER, 404),
    Route("PUT", "/rules/7", ANALYST, 404, {"document": RULE}, IF_MATCH),
    Route("GET", "/rules/7/versions", VIEWER, 404),
    Route("GET", "/rules/7/diff?from=1&to=2", VIEWER, 404),
    Route("POST", "/rules/7/state", ANALYST, 404, {"state": "SHADOW"}, IF_MATCH),
    Route("POST", "/rules/7/rollback", ANALYST, 404, {"revision": 1}, IF_MATCH),
    Route("GET", "/data-health", VIEWER, 200),
    Route("GET", "/data-health/rules/7", VIEWER, 200),
    Route("GET", "/rules/7/outcome", VIEWER, 404),
    Route("GET", "/rules/7/comparison?with=8", VIEWER, 404),
    Route("GET", "/approvals", VIEWER, 200),
    Route("GET", "/approvals/7/figures", VIEWER, 404),
    Route("POST", "/approvals/7/approve", APPROVER, 404, {}),
    Route("POST", "/approvals/7/reject", ANALYST, 404, {}),
    Route("POST", "/erasures", ADMIN, 200, {"value": "4711"}),
    Route("POST", "/erasures/certificates", ADMIN, 422, {"certificate": {}, "seal": {}}),
    Route("GET", "/erasures/certificates/9", AUDITOR, 404),
    Route("POST", "/retention", ADMIN, 200),
    Route("POST", "/controls", ADMIN, 202, {"control": "EXPORT_RULES_CURRENT"}),
    Route("GET", "/export", VIEWER, 200),
    Route("POST", "/import", ANALYST, 200, {"content": json.dumps([{**RULE, "ruleId": 1, "ruleState": "SHADOW"}])}),
    Route("GET", "/export/lists", ANALYST, 200),
    Route("POST", "/import/lists", ANALYST, 200, {"content": "mules,long,7"}),
    Route("GET", "/export/maps", ANALYST, 200),
    Route("POST", "/import/maps", ANALYST, 200, {"content": "limits,long,decimal,7,1"}),
    Route("GET", "/operations", VIEWER, 200),
    Route("GET", "/decisions", VIEWER, 200),
    Route("GET", "/decisions/proof?transaction=7", ANALYST, 404),
    Route("GET", "/entity?field=nothing&value=7", VIEWER, 422),
    Route("GET", "/lists", VIEWER, 200),
    Route("POST", "/lists", ANALYST, 422, {"name": "mules", "type": "long", "values": ["x"]}),
    Route("GET", "/lists/none", VIEWER, 404),
    Route("GET", "/lists/none/values", ANALYST, 404),
    Route("GET", "/lists/none/export", ANALYST, 404),
    Route("GET", "/lists/none/versions", VIEWER, 404),
    Route("GET", "/lists/none/diff?from=0&to=1", ANALYST, 404),
    Route("POST", "/lists/none/preview", ANALYST, 404, {"operation": "ADD", "values": ["1"]}),
    Route("POST", "/lists/none/changes", ANALYST, 404, {"operation": "ADD", "values": ["1"]}),
    Route("GET", "/maps", VIEWER, 200),
    Route(
        "POST",
        "/maps",
        ANALYST,
        422,
        {"name": "mules", "keyType": "long", "valueType": "decimal", "entries": {"x": "1"}},
    ),
    Route("GET", "/maps/none", VIEWER, 404),
    Route("GET", "/maps/none/entries", ANALYST, 404),
    Route("GET", "/maps/none/export", ANALYST, 404),
    Route("GET", "/maps/none/versions", VIEWER, 404),
    Route("GET", "/maps/none/diff?from=0&to=1", ANALYST, 404),
    Route("POST", "/maps/none/preview", ANALYST, 404, {"operation": "ADD", "entries": {"1": "2"}}),
    Route("POST", "/maps/none/changes", ANALYST, 404, {"operation": "ADD", "entries": {"1": "2"}}),
    Route("GET", "/alerts", VIEWER, 200),
    Route("GET", "/alerts?severity=high&sort=amount", VIEWER, 200),
    Route("GET", "/alerts/export", VIEWER, 200),
    Route("GET", "/saved-searches", VIEWER, 200),
    Route("PUT", "/saved-searches/night", VIEWER, 200, {"query": "severity=high"}),
    Route("DELETE", "/saved-searches/none", VIEWER, 404),
    Route("GET", f"/alerts/{ALERT}/evidence", VIEWER, 404),
    Route("GET", f"/alerts/{ALERT}/proof", ANALYST, 404),
    Route("PUT", f"/alerts/{ALERT}/mark", ANALYST, 404, {"verdict": "FRAUD"}),
    Route("DELETE", f"/alerts/{ALERT}/mark", ANALYST, 404),
    Route("POST", "/alerts/marks", ANALYST, 200, {"alertIds": [ALERT], "verdict": "FRAUD"}),
    Route("GET", "/cases", VIEWER, 200),
    Route("GET", "/cases/assignees", VIEWER, 200),
    Route("GET", "/cases/matching", VIEWER, 200),
    Route("POST", "/cases/close?ruleId=7&onlyRule=true", ANALYST, 200, {"outcome": "NOT_FRAUD"}),
    Route("GET", "/alerts/matching", VIEWER, 200),
    Route("POST", "/alerts/marks/matching?ruleId=7", ANALYST, 200, {"verdict": "FRAUD"}),
    Route("POST", "/bulk-changes/7/undo", ANALYST, 404),
    Route("GET", "/cases/7", VIEWER, 404),
    Route("GET", "/cases/7/overview", VIEWER, 404),
    Route("GET", "/search?q=7", VIEWER, 200),
    Route("PUT", "/cases/7/assignee", ANALYST, 404, {"assignee": None}, IF_MATCH),
    Route("PUT", "/cases/7/status", ANALYST, 404, {"status": "IN_WORK"}, IF_MATCH),
    Route("POST", "/cases/7/comments", ANALYST, 404, {"comment": "x"}),
    Route("POST", "/cases/7/marks", ANALYST, 404, {"verdict": "FRAUD"}),
    Route("GET", "/snoozes", VIEWER, 200),
    Route("POST", "/snoozes", ANALYST, 404, {"ruleId": 7, "until": FAR_AHEAD_MS}),
    Route("DELETE", "/snoozes/7", ANALYST, 404),
    Route("GET", "/rules/names", VIEWER, 200),
    Route("GET", "/quality", VIEWER, 200),
    Route("GET", "/labels", VIEWER, 200),
    Route(
        "POST", "/labels", ANALYST, 200, {"name": "a.csv", "content": "transactionId,label\n7,FRAUD", "format": "csv"}
    ),
    Route("GET", "/alarms", VIEWER, 200),
    Route("GET", "/progress", VIEWER, 200),
    Route("GET", "/refused-records", VIEWER, 200),
    Route("GET", "/liveness", VIEWER, 200),
    Route("GET", "/today", VIEWER, 200),
    Route("GET", "/archived-days", ANALYST, 200),
    Route("POST", "/whatif", ANALYST, 409, {"document": {**RULE, "ruleId": 1}}),  # nothing is archived
    Route("GET", "/whatif/0123456789ab", ANALYST, 404),
    Route("GET", "/demo", VIEWER, 404),
    Route("POST", "/demo/speed", ANALYST, 404, {"perS": 5}),
    Route("POST", "/demo/fraud", ANALYST, 404, {"pattern": "huge-payment"}),
    Route("GET", "/receivers", VIEWER, 200),
    Route("POST", "/receivers/none/test", ANALYST, 404),
    Route("GET", "/subscriptions", VIEWER, 200),
    Route("POST", "/subscriptions", ANALYST, 422, SUBSCRIPTION),
    Route("PUT", "/subscriptions/7", ANALYST, 422, SUBSCRIPTION),
    Route("DELETE", "/subscriptions/7", ANALYST, 404),
    Route("GET", "/deliveries?state=FAILED", VIEWER, 200),
    Route("POST", "/deliveries/retry", ANALYST, 200),
    Route("POST", "/deliveries/7/retry", ANALYST, 404),
    Route("GET", "/drift", VIEWER, 200),
    Route("GET", "/audit", AUDITOR, 200),
    Route("GET", "/audit/export?user=ann&action=rule&since=24h", AUDITOR, 200),
    Route("GET", "/audit/verify", AUDITOR, 200),
    Route("GET", "/bindings", ADMIN, 200),
    Route("PUT", "/bindings/somebody", ADMIN, 200, {"role": "viewer"}),
    Route("DELETE", "/bindings/somebody", ADMIN, 204),
    Route("GET", "/tokens", VIEWER, 200),
    Route("POST", "/tokens", VIEWER, 201, {"name": "ci", "role": "viewer", "expiresInDays": 1}),
    Route("DELETE", "/tokens/abcdef012345", VIEWER, 404),
]
STREAM = Route("GET", "/alerts/stream", VIEWER, 200)  # its answer never ends, so these tests check only its refusals


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def server(login: Login, broker: Broker, project: Project, folder: Path) -> Iterator[Server]:
    """One server for all tests, without limits of rates, with a user for each role, and an approver `reused`."""
    with own_topics(broker, project) as topics:
        every_role = settings_of_every_role(topics, folder)
        settings = replace(
            every_role,
            bindings={**every_role.bindings, "reused": Role.APPROVER},
            rates=Rates(requests_per_s=1_000_000, changes_per_s=1_000_000, server_requests_per_s=1_000_000),
        )
        with Server.running(login, topics, project, settings, folder) as running:
            yield running


def test_every_route_of_the_api_is_in_the_table() -> None:
    shown = {
        (method, route.path)
        for route in undriven_app().routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    in_table = {(each.method, _pattern(each.path)) for each in [*ROUTES, STREAM]}
    assert in_table == {(method, path.removeprefix("/api")) for method, path in shown if path.startswith("/api/")}
    assert {method for method, path in shown if not path.startswith("/api/")} == {"GET"}, "the pages, without a login"


def test_a_request_without_a_login_is_refused(server: Server) -> None:
    strangers = cycle(
        [{"Authorization": "Bearer not.a.token"}, {"Authorization": "Bearer fraud_x"}, {HEADER: "no.ticket"}]
    )
    for route, stranger in zip([*ROUTES, STREAM], strangers, strict=False):
        for headers in ({}, stranger):
            answer = server.ask(route.method, route.path, None, json=route.body, headers=headers)
            assert answer.status_code == 401, (route, headers, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        unreadable = server.ask(route.method, route.path, None, content=b"{", headers=TYPED)
        assert unreadable.status_code == 401, route


def test_a_request_with_too_small_a_role_is_refused(server: Server) -> None:
    for route in [*ROUTES, STREAM]:
        smaller = [role.value for role in Role if route.least is not None and not role.includes(route.least)]
        for user in [*smaller, *(["nobody"] if route.least is not None else [])]:
            answer = server.ask(route.method, route.path, user, json=route.body, headers=route.headers)
            assert answer.status_code == 403, (route, user, answer.text)
            assert answer.json()["type"] == f"{PAGES}/problems/role-too-small"


@pytest.mark.parametrize("user", ["nobody", *Role])
def test_a_request_with_a_sufficient_role_is_served(server: Server, user: str) -> None:
    """Each route serves the smallest sufficient role, and all serve an admin."""
    for route in ROUTES:
        if user not in (route.least or "nobody", Role.ADMIN):
            continue
        answer = server.ask(route.method, route.path, user, json=route.body, headers=route.headers)
        assert answer.status_code == route.status, (route, user, answer.text)


def test_a_cookie_is_not_enough_for_a_change(server: Server) -> None:
    """A browser adds the cookie to requests of any site. Origin or Sec-Fetch-Site proves that our page sent one."""
    cookie = server.login.headers("analyst", by_browser=True)
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "https://pages.example", "X-Forwarded-Host": "localhost:8080, pages.example"}, 200),
        ({"Origin": "null", "X-Forwarded-Host": ""}, 403),
        ({"Origin": "http://testserver"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ]
    for headers, status in cases:
        answer = server.ask("POST", "/rules/validate", None, json={"document": RULE}, headers={**cookie, **headers})
        assert answer.status_code == status, (headers, answer.text)
    assert server.ask("GET", "/rules", None, headers=cookie).status_code == 200


def test_a_new_or_removed_role_counts_at_once(server: Server) -> None:
    assert server.ask("GET", "/rules", "nobody").status_code == 403
    assert server.ask("PUT", "/bindings/nobody", json={"role": "viewer"}).status_code == 200
    assert server.ask("GET", "/rules", "nobody").status_code == 200
    assert server.ask("GET", "/me", "nobody").json()["role"] == "viewer"
    assert server.ask("DELETE", "/bindings/nobody").status_code == 204
    assert server.ask("GET", "/rules", "nobody").status_code == 403


def test_the_id_of_the_login_decides_and_not_its_name(server: Server) -> None:
    def me(number: str, name: str) -> tuple[str, str | None]:
        headers = server.login.headers(name, account=Account("FAB", number, name))
        shown = server.ask("GET", "/me", None, headers=headers).json()
        return shown["user"], shown["role"]

    assert me("1", "reused") == ("reused", "approver")
    other, role = me("2", "reused")
    assert other.startswith("reused (") and role is None, "a reused name inherits no role"
    assert me("1", "renamed") == ("reused", "approver"), "a renamed person stays the same user"


def test_a_ticket_that_is_old_or_of_another_key_is_no_login(server: Server) -> None:
    ticket = Ticket(Account("tests", "admin", "admin"), by_browser=False)
    now_s = now_ms() // 1_000
    ours, others = server.login.keys, Login.create().keys
    tickets = [ours.sign(ticket, now_s - 200), others.sign(ticket, now_s), "x", ""]
    for text in tickets:
        answer = server.ask("GET", "/me", None, headers={HEADER: text})
        assert answer.status_code == 401, answer.text
    assert server.ask("GET", "/me", None, headers={HEADER: ours.sign(ticket, now_s)}).status_code == 200


def test_answers_have_security_headers(server: Server) -> None:
    for answer in (server.client.get(f"{PAGES}/"), server.ask("GET", "/me"), server.ask("GET", "/me", None)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert server.ask("GET", "/me").headers["cache-control"] == "no-store"


def test_sizes_and_rates_are_bounded(server: Server) -> None:
    big = b'{"document": {"name": "' + b"x" * 300_000 + b'"}}'
    assert server.ask("POST", "/rules", content=big, headers=TYPED).status_code == 413
    assert server.ask("POST", "/rules", content=iter([big]), headers=TYPED).status_code == 413
    assert server.ask("GET", "/rules?q=" + "x" * 5_000).status_code == 413
    assert server.ask("GET", "/rules?q=%00").status_code == 400
    deep = b'{"document": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    assert server.ask("POST", "/rules/validate", content=deep, headers=TYPED).status_code in (400, 422)
    for value in (b"NaN", b'"\\ud800"', b'"\\u0000"'):
        body = b'{"document": {"name": ' + value + b"}}"
        assert server.ask("POST", "/rules/validate", content=body, headers=TYPED).status_code == 400, body


def test_too_many_requests_are_refused_with_a_time_to_wait(
    login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, tmp_path: Path
) -> None:
    rare = replace(settings, rates=Rates(requests_per_s=2, changes_per_s=1))
    with Server.running(login, topics, project, rare, tmp_path) as server:
        server.stop_clock_of_rates()
        answers = [server.ask("GET", "/me", "viewer") for _ in range(11)]
        waits = [answer for answer in answers if answer.status_code == 429]
        assert answers[0].status_code == 200 and len(waits) == 1 and waits[0].headers["retry-after"]
        changes = [server.ask("POST", "/rules/validate", "analyst", json={"document": RULE}) for _ in range(7)]
        assert {answer.status_code for answer in changes} == {200, 429}
        assert server.ask("GET", "/me", "analyst").status_code == 200, "reads have their own limit"


def test_logs_and_reports_need_the_role_viewer(server: Server, folder: Path) -> None:
    report = folder / "archive" / "reevaluation" / "day=2026-01-02" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("payees")
    log, runbook, reports = (
        "/fraud/logs?path=x",
        "/fraud/runbooks/stalled",
        "/fraud/reports/nights/2026-01-02/report.html",
    )
    expected = {
        (log, "viewer"): 200,
        (log, "nobody"): 403,
        (reports, "viewer"): 403,  # it has whole ids
        (reports, "analyst"): 200,
        (reports, "nobody"): 403,
        (runbook, "nobody"): 200,
        ("/fraud/logs?path=%00", "viewer"): 400,
    }
    for (path, user), status in expected.items():
        answer = server.client.get(path, headers=server.login.headers(user))
        assert answer.status_code == status, (path, user, answer.text)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert server.client.get(path).status_code in (400, 401)


def _pattern(path: str) -> str:
    """The path as the application declares it."""
    path = path.partition("?")[0].replace(ALERT, "{alert_id}").replace("0123456789ab", "{what_if_id}")
    path = path.replace("abcdef012345", "{token_id}")
    path = (
        path.replace("somebody", "{user}").replace("/lists/none", "/lists/{name}").replace("/maps/none", "/maps/{name}")
    )
    path = path.replace("/saved-searches/night", "/saved-searches/{name}").replace(
        "/saved-searches/none", "/saved-searches/{name}"
    )
    for thing in ("rules", "approvals", "snoozes", "cases", "subscriptions"):
        path = path.replace(f"/{thing}/7", f"/{thing}/{{{thing[:-1]}_id}}")
    path = path.replace("/bulk-changes/7", "/bulk-changes/{row}").replace("/certificates/9", "/certificates/{seq}")
    return path.replace("/receivers/none", "/receivers/{name}").replace("/deliveries/7", "/deliveries/{delivery_id}")

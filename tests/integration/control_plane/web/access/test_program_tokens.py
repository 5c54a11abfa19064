"""Programs log in with tokens of their own: requests to a server."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from fraud_control.settings import ControlPlaneSettings, Rates
from fraud_control.store.submissions import SubmissionRow
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.web.server import RULE, Login, Server, settings_of_every_role
from tests.support.kafka.own_topics import OwnTopics, own_topics

CI = {"name": "ci", "role": "analyst", "expiresInDays": 30}


@pytest.fixture(scope="module")
def shared(
    login: Login, broker: Broker, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server for the tests whose tokens have names of their own."""
    folder = tmp_path_factory.mktemp("tokens")
    with (
        own_topics(broker, project) as topics,
        Server.running(login, topics, project, settings_of_every_role(topics, folder), folder) as running,
    ):
        yield running


def create(server: Server, name: str = "ci", **options: Mapping[str, str]) -> httpx.Response:
    return server.ask("POST", "/tokens", "approver", json={**CI, "name": name}, **options)


def of_program(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_program_works_with_a_token_until_it_is_revoked(server: Server) -> None:
    created = create(server)
    assert (created.status_code, created.headers["cache-control"]) == (201, "no-store")
    token, secret = created.json()["token"], created.json()["secret"]
    assert secret not in server.ask("GET", "/tokens", "approver").text
    program = of_program(secret)
    me = server.ask("GET", "/me", None, headers=program).json()
    assert (me["user"], me["role"]) == ("approver", "analyst")
    foreign = {**program, "Origin": "https://elsewhere.example"}
    assert server.ask("POST", "/rules", None, json={"document": RULE}, headers=foreign).status_code == 201
    assert server.ask("GET", "/audit", None, headers=program).status_code == 403, "an analyst is no auditor"
    row = server.ask("GET", "/audit?action=rule", "auditor").json()["items"][0]
    assert (row["who"], row["program"]) == ("approver", "ci")
    lines = list(csv.DictReader(server.ask("GET", "/audit/export", "auditor").text.splitlines()))
    assert [(line["user"], line["program"], line["action"]) for line in lines] == [
        ("approver", "ci", "rule.create"),
        ("approver", "", "token.create"),
    ]
    assert server.ask("DELETE", f"/tokens/{token['id']}", "analyst").status_code == 404
    assert server.ask("DELETE", f"/tokens/{token['id']}", "admin").status_code == 204
    refused = server.ask("GET", "/me", None, headers=program)
    assert refused.status_code == 401
    assert "unknown or revoked" in refused.json()["detail"]


def test_a_repeated_request_does_not_show_the_secret_again(shared: Server) -> None:
    key = {"Idempotency-Key": "7"}
    secret = create(shared, "once", headers=key).json()["secret"]
    again = create(shared, "once", headers=key)
    assert again.status_code == 409 and secret not in again.text
    with shared.plane.store.reading() as work:
        assert [row.answer for row in work.session.query(SubmissionRow)] == [None]


def test_a_token_is_used_instead_of_another_login(shared: Server) -> None:
    secret = create(shared, "beside-a-login").json()["secret"]
    both = {**shared.login.headers("admin"), **of_program(secret)}
    assert shared.ask("GET", "/me", None, headers=both).json()["role"] == "analyst"
    unknown = {**shared.login.headers("admin"), **of_program("fraud_x")}
    assert shared.ask("GET", "/me", None, headers=unknown).status_code == 401


def test_a_program_shares_the_rate_of_its_owner(
    login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, tmp_path: Path
) -> None:
    rare = replace(settings, rates=Rates(requests_per_s=2, changes_per_s=1))
    with Server.running(login, topics, project, rare, tmp_path) as server:
        headers = of_program(create(server).json()["secret"])
        server.stop_clock_of_rates()
        logins = (headers, server.login.headers("approver")) * 6
        answers = [server.ask("GET", "/me", None, headers=login) for login in logins]
        assert {answer.status_code for answer in answers} == {200, 429}, "each alone may send ten at once"


def test_unsuitable_tokens_are_refused(shared: Server) -> None:
    wrong = ({"name": "a b"}, {"name": ""}, {"name": "x" * 64}, {"role": "root"}, {"expiresInDays": 0})
    for members in (*wrong, {"expiresInDays": 367}, {"name": "ci\n"}, {"more": 1}):
        assert shared.ask("POST", "/tokens", json={**CI, **members}).status_code == 422, members
    answer = shared.ask("POST", "/tokens", "viewer", json=CI)
    assert (answer.status_code, answer.json()["detail"]) == (403, "a token may have at most your role, viewer")
    assert shared.ask("GET", "/tokens", "nobody").status_code == 403


def test_a_program_reads_the_pages_beside_the_api(shared: Server) -> None:
    headers = of_program(create(shared, "pages").json()["secret"])
    assert shared.client.get("/fraud/runbooks/stalled", headers=headers).status_code == 200
    assert shared.client.get("/fraud/logs?path=%00", headers=headers).status_code == 400

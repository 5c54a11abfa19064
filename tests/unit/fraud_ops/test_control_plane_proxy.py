"""The proxy of Airflow's plugin without a control plane behind it; a test with a real API server has one."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

from fraud_control.web.serve import KEEP_ALIVE_S
from fraud_ops.tickets import HEADER
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.airflow_ui.control_plane_proxy import IDLE_S, create_app
from fraud_rules_airflow.hooks.control_plane import ControlPlaneHook, ControlPlaneServer
from tests.support.control_plane.web.server import Login
from tests.support.ports import free_ports
from tests.support.receivers.answering import answering


def test_a_server_that_does_not_run_is_named() -> None:
    server = ControlPlaneServer(f"http://127.0.0.1:{free_ports(1)[0]}", Login.create().keys)
    with TestClient(create_app(lambda: server)) as client:
        answer = client.get("/control/api/me")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert answer.headers["retry-after"]
    assert answer.json()["detail"] == "the control plane does not answer (ClientConnectorError): is its server running?"


def test_the_proxy_closes_idle_connections_before_the_server() -> None:
    """Otherwise it would send requests on connections that the server closes at that moment."""
    assert 2 * IDLE_S < KEEP_ALIVE_S


def test_a_missing_connection_is_named_and_found_later() -> None:
    server = ControlPlaneServer(f"http://127.0.0.1:{free_ports(1)[0]}", Login.create().keys)
    found: list[ControlPlaneServer] = []

    def find() -> ControlPlaneServer:
        if not found:
            raise ConfigError("the Airflow connection fraud_control is missing: create it")
        return found[0]

    with TestClient(create_app(find)) as client:
        assert client.get("/control/").json()["detail"] == "the Airflow connection fraud_control is missing: create it"
        found.append(server)
        assert "does not answer" in client.get("/control/").json()["detail"]


def test_only_the_token_of_a_program_is_forwarded() -> None:
    with answering(lambda request: (200, request.headers)) as url:
        found = ControlPlaneServer(url, Login.create().keys)
        with TestClient(create_app(lambda: found)) as client:
            program = {"Authorization": "Bearer fraud_x", "Cookie": "_token=x"}
            of_program = client.get("/control/api/me", headers=program).json()
            other = client.get("/control/api/me", headers={"Authorization": "Basic fraud_x"}).json()
    assert of_program["authorization"] == "Bearer fraud_x"
    assert not {"cookie", HEADER.lower()} & set(of_program), "the login of a person stays here"
    assert not {"authorization", HEADER.lower()} & set(other)


@pytest.mark.parametrize("members", [{}, {"host": "http://here"}, {"password": "x"}, {"host": "h", "password": "eA=="}])
def test_an_incomplete_connection_is_refused(members: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_CONTROL", json.dumps({"conn_type": "http", **members}))
    with pytest.raises(ConfigError, match="key"):
        ControlPlaneHook().get_conn()


def test_the_page_of_the_connection_shows_whether_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def test(url: str) -> tuple[bool, str]:
        members = {"conn_type": "fraud_control_plane", "host": url, "password": "x" * 32}
        monkeypatch.setenv("AIRFLOW_CONN_FRAUD_CONTROL", json.dumps(members))
        return ControlPlaneHook().test_connection()

    with answering(lambda request: (200 if request.path == "/fraud/health" else 404, {})) as url:
        assert test(url) == (True, "the health check answers 200")
    assert test(f"http://127.0.0.1:{free_ports(1)[0]}")[0] is False

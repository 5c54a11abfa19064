"""The task of `fraud_retention` asks the control plane with the token of its connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from fraud_rules_airflow.operators.retention import RetentionOperator
from tests.support.receivers.answering import Request, answering

REMOVED = {"cases": 3, "snoozes": 1, "auditRows": 50_000}


def run(monkeypatch: pytest.MonkeyPatch, **members: str) -> Any:
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_RETENTION", json.dumps({"conn_type": "http", **members}))
    return RetentionOperator(task_id="remove").execute({})  # type: ignore[typeddict-item]


def test_the_control_plane_removes_what_is_beyond_its_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    with answering(lambda request: asked.append(request) or (200, REMOVED)) as url:
        assert run(monkeypatch, host=url, password="fraud_secret") == REMOVED
    (request,) = asked
    assert (request.method, request.path, request.body) == ("POST", "/fraud/control/api/retention", b"")
    assert request.headers["authorization"] == "Bearer fraud_secret"


def test_a_connection_without_a_token_is_a_fault_that_no_retry_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="needs an address as its host, and a token"):
        run(monkeypatch, host="http://127.0.0.1:1")

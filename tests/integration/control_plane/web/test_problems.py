"""Errors as answers of the HTTP API."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fraud_ops.control_plane.domain.errors import LeadershipLost, StoreBusy, Unavailable
from fraud_ops.control_plane.web import problems
from fraud_rules.errors import BrokerUnavailable, FraudError


@pytest.mark.parametrize("error", [StoreBusy, LeadershipLost, Unavailable, BrokerUnavailable])
def test_the_answer_to_a_temporary_error_has_retry_after(error: type[FraudError]) -> None:
    application = FastAPI()
    problems.install(application)

    @application.get("/")
    def fails() -> None:
        raise error("process 7 has held the lock for 10 s")

    answer = TestClient(application).get("/")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["detail"] == "process 7 has held the lock for 10 s"

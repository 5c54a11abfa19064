"""Errors as answers of the HTTP API."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fraud_control.domain.errors import LeadershipLost, RefusalCause, RequestRefused, StoreBusy, Unavailable
from fraud_control.web import problems
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


@pytest.mark.parametrize(
    ("error", "slug", "title"),
    [
        (RequestRefused("no", forbidden=True), "role-too-small", "Your role does not allow this"),
        (
            RequestRefused("no", forbidden=True, cause=RefusalCause.SECOND_PERSON),
            "second-person",
            "A second person must decide",
        ),
        (
            RequestRefused("no", forbidden=True, cause=RefusalCause.NOT_THE_AUTHOR),
            "not-the-author",
            "Only the author and admins may change this",
        ),
        (problems.WebError(403, "no", "cross-origin"), "cross-origin", "Request of another site"),
    ],
)
def test_a_forbidden_request_has_the_title_of_its_cause(error: FraudError, slug: str, title: str) -> None:
    application = FastAPI()
    problems.install(application)

    @application.get("/")
    def fails() -> None:
        raise error

    answer = TestClient(application).get("/")
    assert (answer.status_code, answer.json()["type"]) == (403, f"{problems.TYPES}{slug}")
    assert answer.json()["title"] == title

"""A request with a wrong type or without a field: the problem says so in a plain sentence, with the path once."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Query
from fastapi.testclient import TestClient
from pydantic import Field

from fraud_control.web import problems
from fraud_control.web.schemas.base import Request


class Inner(Request):
    per_day: Annotated[int, Field(ge=0)]


class Body(Request):
    name: str
    limits: tuple[Inner, ...] = ()


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    problems.install(app)

    @app.post("/things/{number}")
    def save(number: int, body: Body, days: Annotated[int, Query(le=30)] = 1) -> None: ...

    return TestClient(app)


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/things/1", {}, "name: is missing"),
        ("/things/1", {"name": 7}, "name: 7 is not a text"),
        ("/things/1", {"name": "a", "more": 1}, "more: is not a known member"),
        ("/things/1", {"name": "a", "limits": [{"perDay": -1}]}, "limits.0.perDay: -1 is below the minimum 0"),
        ("/things/1", [], "body: a list is not an object"),
        ("/things/1?days=31", {"name": "a"}, "days: '31' is above the maximum 30"),
        ("/things/x", {}, "number: 'x' is not a whole number; name: is missing"),
    ],
)
def test_a_malformed_request(client: TestClient, path: str, body: Any, detail: str) -> None:
    found = client.post(path, json=body)
    assert (found.status_code, found.json()["detail"]) == (422, detail)
    assert "; ".join(f"{each['field']}: {each['message']}" for each in found.json()["reasons"]) == detail


def test_unreadable_json_is_malformed(client: TestClient) -> None:
    found = client.post("/things/1", content=b"{", headers={"content-type": "application/json"})
    assert found.status_code == 400
    assert found.json()["detail"].startswith("the body is not valid JSON")

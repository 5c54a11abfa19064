"""The gate counts requests of known sessions before all other middleware of Airflow's application."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_ops.control_plane.settings import Rates
from fraud_ops.control_plane.web import auth
from fraud_ops.control_plane.web.front_gate import FrontGate
from fraud_ops.control_plane.web.load.pace import Pace
from fraud_ops.control_plane.web.load.rates import CountedSession, Throttle

PREFIX = "/fraud/control"
FIVE = Rates(requests_per_s=1, changes_per_s=1, server_requests_per_s=1)


class Authentication:
    """Stands for a middleware that Airflow adds after those of plugins."""

    seen: list[str]

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.seen.append(scope["path"])
        await self._app(scope, receive, send)


@pytest.fixture
def control_plane() -> FastAPI:
    application = FastAPI()
    application.state.throttle = Throttle(delay_s=0.0)
    application.state.throttle.sessions.learn("a token", CountedSession("vera", makes_changes=False))
    application.state.pace = Pace()
    plane = SimpleNamespace(settings=SimpleNamespace(rates=FIVE))
    application.state.service = lambda: plane

    @application.get("/api/rules")
    @application.get("/page")
    async def rules() -> str:
        return "the rules"

    return application


@pytest.fixture(params=["", "/airflow"])
def client(control_plane: FastAPI, request: pytest.FixtureRequest) -> Iterator[TestClient]:
    root = FastAPI(root_path=request.param)
    root.mount(PREFIX, control_plane)
    root.add_middleware(FrontGate, control_plane=control_plane, prefix=PREFIX)
    Authentication.seen = []
    root.add_middleware(Authentication)
    with TestClient(root, base_url=f"http://testserver{request.param}", cookies={"_token": "a token"}) as client:
        yield client


def test_a_request_above_the_rate_reaches_no_middleware(client: TestClient) -> None:
    answers = [client.get(f"{PREFIX}/api/rules") for _ in range(8)]
    assert [each.status_code for each in answers] == [200] * 5 + [429] * 3
    assert len(Authentication.seen) == 5
    refused = answers[-1]
    assert refused.json()["type"] == "/fraud/control/problems/too-many"
    assert (refused.headers["retry-after"], refused.headers["x-content-type-options"]) == ("2", "nosniff")


def test_only_the_requests_of_known_sessions_to_the_api_count(client: TestClient) -> None:
    for _ in range(8):
        assert client.get(f"{PREFIX}/page").status_code == 200
        assert client.get(f"{PREFIX}/api/rules", headers={"Authorization": "Bearer another"}).status_code == 200


def test_a_counted_request_does_not_count_again(client: TestClient, control_plane: FastAPI) -> None:
    marks: list[object] = []

    @control_plane.middleware("http")
    async def remember(request, call_next):  # type: ignore[no-untyped-def]
        marks.append(request.scope.get(auth.COUNTED))
        return await call_next(request)

    client.get(f"{PREFIX}/api/rules")
    client.get(f"{PREFIX}/page")
    assert marks == ["vera", None]


def test_the_application_answers_while_the_control_plane_starts(client: TestClient, control_plane: FastAPI) -> None:
    def starting() -> None:
        raise Unavailable("the control plane is starting")

    control_plane.state.service = starting
    assert [client.get(f"{PREFIX}/api/rules").status_code for _ in range(8)] == [200] * 8


def test_without_a_lifespan_the_gate_counts_where_it_is(control_plane: FastAPI) -> None:
    gate = FrontGate(control_plane, control_plane, "")
    client = TestClient(gate, cookies={"_token": "a token"})
    assert [client.get("/api/rules").status_code for _ in range(6)] == [200] * 5 + [429]


def test_viewers_are_admitted_at_a_steady_rate_and_approvers_at_once(
    client: TestClient, control_plane: FastAPI
) -> None:
    control_plane.state.throttle.sessions.learn("an approver's", CountedSession("ann", makes_changes=True))
    control_plane.state.pace = pace = Pace(per_s=5, burst=1)
    assert client.get(f"{PREFIX}/api/rules").status_code == 200
    for _ in range(3):
        client.get(f"{PREFIX}/api/rules", headers={"Authorization": "an approver's"})
    assert pace.reserve() <= 0.2, "only the viewer has taken a turn"

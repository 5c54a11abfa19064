"""Sessions of a server's own pages: the way to Airflow and back, and what does not become a session."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fraud_control.web.login.logins import Logins
from fraud_control.web.problems import WebError
from fraud_ops.account import Account
from fraud_ops.tickets import Purpose, Ticket, TicketKeys
from fraud_rules.runtime.clock import now_ms

AIRFLOW = "https://airflow.example/af"
PAGE = "/fraud/control/alerts?shadow=true"
ANNA = Account("FAB", "7", "anna")
KEYS = TicketKeys("k" * 64)


def browser(logins: Logins) -> TestClient:
    """A client of a server that says who is logged in."""

    async def me(request: Request) -> PlainTextResponse:
        try:
            ticket = await logins.read(request)
        except WebError as error:
            return PlainTextResponse(str(error), error.status)
        return PlainTextResponse(f"{ticket.account.name} {ticket.by_browser}")

    site = Starlette(routes=[Route("/me", me), *logins.routes()])
    return TestClient(site, base_url="https://pages.example", follow_redirects=False)


@pytest.fixture
def client() -> TestClient:
    return browser(Logins(KEYS, "https://pages.example", AIRFLOW))


def begin(client: TestClient, page: str = PAGE) -> str:
    """Begin a login, and return its state."""
    answer = client.get("/auth/login", params={"next": page})
    assert answer.status_code == 303
    address = urlsplit(answer.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{AIRFLOW}/fraud/open"
    (state,) = parse_qs(address.query)["state"]
    return state


def signed(state: str, purpose: Purpose = Purpose.LOGIN, age_s: int = 0) -> str:
    return KEYS.sign(Ticket(ANNA, by_browser=False), now_ms() // 1_000 - age_s, purpose, state)


def test_airflow_vouches_for_a_user_and_a_cookie_keeps_the_session(client: TestClient) -> None:
    assert client.get("/me").status_code == 401
    answer = client.get("/fraud/session", params={"ticket": signed(begin(client))})
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert client.get("/me").text == "anna True"
    cookie = next(each for each in answer.headers.get_list("set-cookie") if each.startswith("fraud_session"))
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=lax", "Max-Age=28800"))
    assert client.post("/auth/logout").status_code == 204
    assert client.get("/me").status_code == 401


def test_a_ticket_serves_one_login_of_one_browser(client: TestClient) -> None:
    ticket = signed(begin(client))
    assert client.get("/fraud/session", params={"ticket": ticket}).status_code == 303
    again = client.get("/fraud/session", params={"ticket": ticket})
    assert again.status_code == 401 and "has begun no login" in again.text
    other = browser(Logins(KEYS, "https://pages.example", AIRFLOW))
    assert other.get("/fraud/session", params={"ticket": ticket}).status_code == 401
    begin(other)
    stolen = other.get("/fraud/session", params={"ticket": ticket})
    assert stolen.status_code == 401 and "another login" in stolen.text


@pytest.mark.parametrize("purpose", [Purpose.REQUEST, Purpose.SESSION])
def test_no_ticket_serves_another_purpose(client: TestClient, purpose: Purpose) -> None:
    state = begin(client)
    assert client.get("/fraud/session", params={"ticket": signed(state, purpose)}).status_code == 401
    client.cookies.set("fraud_session", signed("", Purpose.LOGIN))
    assert client.get("/me").status_code == 401


def test_an_old_ticket_is_refused(client: TestClient) -> None:
    ticket = signed(begin(client), age_s=200)
    answer = client.get("/fraud/session", params={"ticket": ticket})
    assert answer.status_code == 401 and "expired" in answer.text


@pytest.mark.parametrize("page", ["https://elsewhere.example/", "//elsewhere.example", "/fraud/control/\\x", "", "/"])
def test_the_way_back_leads_to_pages_of_this_server_only(client: TestClient, page: str) -> None:
    answer = client.get("/fraud/session", params={"ticket": signed(begin(client, page))})
    assert answer.headers["location"] == "/fraud/control/"


def test_without_the_address_of_airflow_there_are_no_sessions() -> None:
    client = browser(Logins(KEYS))
    assert client.get("/auth/login").status_code == 404
    client.cookies.set("fraud_session", signed("", Purpose.SESSION))
    assert client.get("/me").status_code == 401

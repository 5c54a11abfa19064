"""The logins of a server: a ticket of Airflow's plugin with each request, the signed header of a proxy, or a session of
the server's own pages.

Without the plugin in front, a page without a session leads to `/auth/login`. From there Airflow's plugin sends the
browser back with a ticket for the state that this server gave it, as in OAuth 2.0 (RFC 6749, section 10.12). So a
ticket that leaks serves no other browser. The session is a signed cookie, which every server over one key accepts.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote, urlencode

from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from fraud_control.web.login.signed_header import SignedHeader
from fraud_control.web.problems import WebError, problem
from fraud_ops.paths import OPEN, PAGES, SESSION
from fraud_ops.tickets import HEADER, SESSION_S, Purpose, Ticket, TicketInvalid, TicketKeys
from fraud_rules.runtime.clock import MS_PER_S, now_ms

ReadLogin = Callable[[HTTPConnection], Awaitable[Ticket]]
"""Reads the login of a request. Raises WebError (401)."""

SESSION_COOKIE: Final = "fraud_session"
"""The cookie with the session of the server's own pages."""
_STATE_COOKIE: Final = "fraud_login"
_STATE_S: Final = 600
_STATE_BYTES: Final = 24


class Logins:
    """`airflow_url` is the address of Airflow for a browser; empty if only the plugin sends requests."""

    def __init__(
        self, keys: TicketKeys, url: str = "", airflow_url: str = "", proxy: SignedHeader | None = None
    ) -> None:
        self._keys = keys
        self._proxy = proxy
        self._airflow_url = airflow_url.rstrip("/")
        self._secure = url.startswith("https:")

    async def read(self, request: HTTPConnection) -> Ticket:
        """The login of a request. Raises WebError (401)."""
        text, session = request.headers.get(HEADER), request.cookies.get(SESSION_COOKIE)
        try:
            if text is not None:
                return self._keys.read(text)
            if self._proxy is not None and self._proxy.header in request.headers:
                return await self._proxy.read(request.headers[self._proxy.header])
            if session is not None and self._airflow_url:
                return self._keys.read(session, Purpose.SESSION)
        except TicketInvalid as error:
            raise WebError(401, str(error)) from error
        raise WebError(401, "log in to Airflow")

    def routes(self) -> list[BaseRoute]:
        """The routes of sessions; none without the address of Airflow."""
        if not self._airflow_url:
            return []
        return [
            Route("/auth/login", self._begin),
            Route(SESSION, self._complete),
            Route("/auth/logout", self._end, methods=["POST"]),
        ]

    async def _begin(self, request: Request) -> Response:
        """Send the browser to Airflow, and remember where it was."""
        state = secrets.token_urlsafe(_STATE_BYTES)
        response = RedirectResponse(f"{self._airflow_url}{OPEN}?{urlencode({'state': state})}", 303)
        kept = f"{state} {quote(_own_path(request.query_params.get('next', '')), safe='')}"
        self._set(response, _STATE_COOKIE, kept, _STATE_S)
        return response

    async def _complete(self, request: Request) -> Response:
        """Exchange the plugin's ticket for a session."""
        state, _, place = request.cookies.get(_STATE_COOKIE, "").partition(" ")
        if not state:
            return problem(401, "this browser has begun no login here within ten minutes: open the pages again")
        try:
            ticket = self._keys.read(request.query_params.get("ticket", ""), Purpose.LOGIN, state)
        except TicketInvalid as error:
            return problem(401, str(error))
        response = RedirectResponse(_own_path(unquote(place)), 303)
        response.headers["Referrer-Policy"] = "no-referrer"
        session = replace(ticket, by_browser=True)
        self._set(response, SESSION_COOKIE, self._keys.sign(session, now_ms() // MS_PER_S, Purpose.SESSION), SESSION_S)
        response.delete_cookie(_STATE_COOKIE)
        return response

    async def _end(self, request: Request) -> Response:
        response = Response(status_code=204)
        response.delete_cookie(SESSION_COOKIE)
        return response

    def _set(self, response: Response, name: str, value: str, life_s: int) -> None:
        response.set_cookie(name, value, max_age=life_s, httponly=True, secure=self._secure, samesite="lax")


def _own_path(text: str) -> str:
    """The path of a page here; the first page for any other address."""
    return text if text.startswith(f"{PAGES}/") and text.isprintable() and "\\" not in text else f"{PAGES}/"

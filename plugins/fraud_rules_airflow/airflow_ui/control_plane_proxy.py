"""Forwards requests for the pages of the control plane to its server, with a ticket of the user who is logged in.

So its pages have Airflow's address and login. The event loop is also that of the heartbeats of tasks. So a login counts
for twenty seconds once it was valid, because Airflow's authentication costs some milliseconds; and the client is
aiohttp, because each request of httpx looks at all its connections, of which each open page has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from cachetools import TTLCache
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials
from starlette.exceptions import HTTPException
from starlette.routing import Route
from yarl import URL

from fraud_ops.account import Account
from fraud_ops.paths import FORWARDED_HOST, FORWARDED_PREFIX, OPEN, PAGES, ROOT, SESSION
from fraud_ops.tickets import HEADER, Purpose, Ticket
from fraud_ops.token_secrets import secret_in
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.clock import MS_PER_S, now_ms
from fraud_rules_airflow.airflow_ui.address import base_url
from fraud_rules_airflow.hooks.control_plane import CONTROL_PLANE, ControlPlaneHook, ControlPlaneServer

_TIMEOUT: Final = ClientTimeout(total=None, connect=10.0, sock_connect=5.0, sock_read=120.0)
"""The server of the control plane sends something on each stream more often."""
IDLE_S: Final = 5.0
"""How long an idle connection is used again. The server of the control plane keeps one longer."""
_MOST_CONNECTIONS: Final = 2_000
"""Each open page has one connection for its events. The control plane limits those of a user."""
_MOST_KNOWN: Final = 10_000
_KNOWN_S: Final = 20.0
"""A logout takes effect within this time."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_PUBLIC: Final = "/control/assets/"
_OWN: Final = frozenset(
    {
        "authorization", "connection", "cookie", "forwarded", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "host", "te", "trailer", "transfer-encoding", "upgrade", FORWARDED_HOST, FORWARDED_PREFIX,
        HEADER.lower(),
    }
)  # fmt: skip
"""Headers between two neighbours, and those with credentials, which the control plane must not see."""


def _server() -> ControlPlaneServer:
    return ControlPlaneHook().get_conn()


def create_app(find: Callable[[], ControlPlaneServer] = _server) -> FastAPI:
    """Create the application. Its first request calls `find`, in a thread, so that Airflow starts without one."""
    airflow = urlsplit(base_url())

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        async with _client() as client:
            application.state.client = client
            application.state.known = TTLCache(_MOST_KNOWN, _KNOWN_S)
            application.state.server = None
            yield

    async def found(application: FastAPI) -> ControlPlaneServer:
        if application.state.server is None:
            application.state.server = await asyncio.to_thread(find)
        server: ControlPlaneServer = application.state.server
        return server

    async def forward(request: Request) -> Response:
        try:
            answer = await _answer(request, await found(request.app), airflow)
        except ConfigError as error:
            return _unavailable(str(error))
        except (ClientError, TimeoutError) as error:
            return _unavailable(f"the control plane does not answer ({type(error).__name__}): is its server running?")
        response = StreamingResponse(_content(answer), answer.status)
        response.raw_headers = [(name.lower(), value) for name, value in answer.raw_headers if _passes(name.decode())]
        return response

    async def open_session(request: Request) -> Response:
        """Send a browser that is logged in here to the control plane's own pages, with a ticket for the session."""
        try:
            server = await found(request.app)
        except ConfigError as error:
            return _unavailable(str(error))
        if not server.public_url:
            return _unavailable(f"the extra of the connection {CONTROL_PLANE} has no `url` of the pages")
        ticket = await _ticket(request)
        if ticket is None:
            back = f"{base_url()}{OPEN}?{request.url.query}"
            return RedirectResponse(f"{base_url()}/auth/login?{urlencode({'next': back})}", 303)
        state = request.query_params.get("state", "")
        text = server.keys.sign(ticket, now_ms() // MS_PER_S, Purpose.LOGIN, state)
        return RedirectResponse(f"{server.public_url}{SESSION}?{urlencode({'ticket': text})}", 303)

    application = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    application.router.routes.append(Route(OPEN.removeprefix(ROOT), open_session))
    application.router.routes.append(Route("/{rest:path}", forward, methods=_METHODS))
    return application


def _unavailable(detail: str) -> Response:
    """An error as the control plane itself would send it, which its pages can show."""
    title, kind = "Temporarily unavailable", f"{PAGES}/problems/unavailable"
    content = {"type": kind, "title": title, "status": 503, "detail": detail, "reasons": []}
    return JSONResponse(content, 503, {"Retry-After": "2"}, "application/problem+json")


def _client() -> ClientSession:
    """A client that forwards a request and its answer as they are."""
    return ClientSession(
        connector=TCPConnector(limit=_MOST_CONNECTIONS, keepalive_timeout=IDLE_S),
        timeout=_TIMEOUT,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
    )


async def _answer(request: Request, server: ControlPlaneServer, airflow: SplitResult) -> ClientResponse:
    """Send the request to the server: with its token if a program sends it, else with a ticket if the user is logged
    in. The server refuses the others by itself.
    """
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    headers = [(name, value) for name, value in request.headers.items() if _passes(name)]
    headers += _forwarded(request, airflow).items()
    authorization = request.headers.get("authorization")
    if authorization is not None and secret_in(authorization) is not None:
        headers.append(("authorization", authorization))
    elif (ticket := None if path.startswith(_PUBLIC) else await _ticket(request)) is not None:
        headers.append((HEADER, server.keys.sign(ticket, now_ms() // MS_PER_S)))
    client: ClientSession = request.app.state.client
    url = URL(server.url.rstrip("/") + _path(path, request.scope["query_string"]), encoded=True)
    has_body = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    content = request.stream() if has_body else None
    return await client.request(request.method, url, headers=headers, data=content, allow_redirects=False)


async def _ticket(request: Request) -> Ticket | None:
    """The ticket of a request's login; None without a valid one."""
    token = await bearer_scheme(request)
    credential = request.cookies.get(COOKIE_NAME_JWT_TOKEN) if token is None else token.credentials
    if not credential:
        return None
    key = token is None, sha256(credential.encode("utf-8", "surrogatepass")).digest()
    known: TTLCache[tuple[bool, bytes], Ticket] = request.app.state.known
    ticket = known.get(key) or await _authenticated(request, token)
    if ticket is not None:
        known.setdefault(key, ticket)
    return ticket


async def _authenticated(request: Request, token: HTTPAuthorizationCredentials | None) -> Ticket | None:
    try:
        user = await get_user(request, None, token)
    except HTTPException:
        return None
    manager = type(get_auth_manager())
    account = Account(f"{manager.__module__}.{manager.__qualname__}", str(user.get_id()), str(user.get_name()))
    return Ticket(account, by_browser=token is None)


def _forwarded(request: Request, airflow: SplitResult) -> Mapping[str, str]:
    """Where a browser sees these pages: the control plane links its files and checks the origin of changes by it."""
    prefix = request.scope.get("root_path", "").removesuffix(ROOT) or airflow.path
    hosts = (request.headers.get("host"), airflow.netloc)
    return {FORWARDED_PREFIX: prefix, FORWARDED_HOST: ", ".join(name for name in hosts if name)}


def _path(path: str, query: bytes) -> str:
    quoted = quote(ROOT + path, safe="/:@!$&'()*+,;=-._~")
    return f"{quoted}?{query.decode('latin-1')}" if query else quoted


def _passes(name: str) -> bool:
    return name.lower() not in _OWN


async def _content(answer: ClientResponse) -> AsyncIterator[bytes]:
    """The body as it was sent. It ends early if the control plane ends."""
    async with answer:
        async for part in answer.content.iter_any():
            yield part

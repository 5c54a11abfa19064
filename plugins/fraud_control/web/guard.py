"""Middleware for all requests and responses: size limits and security headers."""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fraud_control.web.problems import WebError, problem

_MOST_BYTES = 262_144
_IMPORT_BYTES = 8_388_608  # above the service's bound on a file, because JSON escapes each line break of the file
_LIST_BYTES = 25_165_824  # above the service's bound on the values of a change
_MOST_QUERY_BYTES = 4_096
_LIST_CHANGE = re.compile(r"/api/(labels|(lists|maps)(/[^/]+/(changes|preview))?)$")
_HEADERS = {
    # The component library writes styles at run time. Scripts may only come from this server's files.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Limits the size of requests and sets the security headers of responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = _Asked(scope, receive, send)
        refusal = asked.refusal()
        if refusal is not None:
            await problem(refusal.status, str(refusal))(scope, receive, asked.send)
            return
        await self._app(scope, asked.receive, asked.send)


class _Asked:
    """One request with its limits."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._most = _most_bytes(scope["path"])
        self._seen = 0

    def refusal(self) -> WebError | None:
        """Check the request before its body is read; None if it is acceptable."""
        query: bytes = self._scope["query_string"]
        if len(query) > _MOST_QUERY_BYTES:
            return WebError(413, f"a query string may have at most {_MOST_QUERY_BYTES:,} bytes")
        if "\0" in self._scope["path"] or b"%00" in query or b"\0" in query:
            return WebError(400, "the address must not contain NUL")
        length = dict(self._scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self._most:
            return self._too_large()
        return None

    async def receive(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)

    def _too_large(self) -> WebError:
        return WebError(413, f"the body of this request may have at most {self._most:,} bytes")


def _most_bytes(path: str) -> int:
    """The largest body of a request. Files may be larger than other bodies."""
    if path.endswith("/api/import"):
        return _IMPORT_BYTES
    return _LIST_BYTES if _LIST_CHANGE.search(path) else _MOST_BYTES

"""Counts requests of known sessions before Airflow authenticates them, and admits those of viewers at a steady rate.

Airflow authenticates each request with a cookie before the middleware of a plugin, which costs the event loop some
milliseconds, also for a request that is refused then. So the gate moves in front of all middleware when the server
starts. If it cannot, `auth.admit` counts all requests.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_ops.control_plane.web.auth import COUNTED, count, known_session
from fraud_ops.control_plane.web.guard import Guard
from fraud_ops.control_plane.web.load.pace import Pace
from fraud_ops.control_plane.web.problems import WebError, problem

__all__ = ["FrontGate"]

_API: Final = "/api/"


class FrontGate:
    """A middleware of Airflow's application. `control_plane` is mounted at `prefix` there."""

    def __init__(self, app: ASGIApp, control_plane: FastAPI, prefix: str) -> None:
        self._app = app
        self._control_plane = control_plane
        self._api = prefix + _API

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._move_to_front(scope)
        elif scope["type"] == "http" and COUNTED not in scope and self._is_ours(scope):
            try:
                await self._count(scope)
            except WebError as error:
                await Guard(problem(error.status, str(error)))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _move_to_front(self, scope: Scope) -> None:
        """Put another gate around all of the application's middleware. This one then lets all requests pass."""
        application = scope["app"]
        application.middleware_stack = FrontGate(
            application.middleware_stack, self._control_plane, self._api.removesuffix(_API)
        )

    def _is_ours(self, scope: Scope) -> bool:
        path: str = scope["path"]
        return path.removeprefix(scope.get("root_path", "")).startswith(self._api)

    async def _count(self, scope: Scope) -> None:
        connection = HTTPConnection(scope)
        session = known_session(self._control_plane, connection)
        if session is not None:
            with suppress(Unavailable):  # the application says so itself
                await count(self._control_plane, scope["method"], session)
                scope[COUNTED] = session.user
                if not session.makes_changes:
                    pace: Pace = self._control_plane.state.pace
                    await pace.turn()

"""All pages of the control plane in one application: rules and alerts, runbooks, logs and reports."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fraud_control.domain.errors import Unavailable
from fraud_control.domain.roles import LEAST_ROLE, Permission, Role
from fraud_control.web import problems
from fraud_control.web.app import create_app
from fraud_control.web.auth import admit
from fraud_control.web.documents import report_pages, runbook_pages
from fraud_control.web.guard import Guard
from fraud_control.web.login.logins import Logins
from fraud_control.web.problems import WebError
from fraud_control.web.service import Opener
from fraud_ops.paths import FORWARDED_PREFIX, HEALTH, PAGES, REPORTS, ROOT
from fraud_rules.batch.archive.place import ArchivePath

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+){1,8}")


def create_site(opener: Opener, logins: Logins, archive: ArchivePath) -> Starlette:
    """Create the application that a server runs. `opener` creates the control plane at the start of the server."""
    control_plane = create_app(opener, logins.read)
    viewer = admission(control_plane, Role.VIEWER)
    beside = runbook_pages.create_app(admission(control_plane, None), viewer)
    reports = report_pages.create_app(archive, admission(control_plane, Role.VIEWER, reads_ids=True))

    async def health(_: Request) -> Response:
        """Whether the control plane has started. It needs no login, so the reason is only in the log."""
        try:
            control_plane.state.service()
        except Unavailable:
            return JSONResponse({"status": "starting"}, 503)
        return JSONResponse({"status": "healthy"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with control_plane.router.lifespan_context(control_plane):
            yield

    site = Starlette(
        routes=[
            Route(HEALTH, health),
            *logins.routes(),
            Route("/", _to_pages),
            Route(PAGES, _to_pages),
            Mount(PAGES, control_plane),
            Mount(REPORTS, guarded(reports)),
            Mount(ROOT, guarded(beside)),
        ],
        lifespan=lifespan,
    )
    site.add_middleware(_BelowPrefix)
    return site


async def _to_pages(request: Request) -> RedirectResponse:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{PAGES}/")


class _BelowPrefix:
    """Lets the pages name their files below the prefix of a proxy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            prefix = Headers(scope=scope).get(FORWARDED_PREFIX, "")
            if _PREFIX.fullmatch(prefix):
                scope = {**scope, "root_path": prefix, "path": prefix + scope["path"]}
        await self._app(scope, receive, send)


def admission(
    control_plane: FastAPI, least: Role | None, *, reads_ids: bool = False
) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """A dependency that admits users of this control plane with at least this role; None stands for any login. With
    `reads_ids`, it admits no role that sees masked values.
    """

    async def admitted(request: Request) -> None:
        await admit(request, least, control_plane)
        if reads_ids and control_plane.state.service().masking.hides_from(request.state.fraud_role):
            raise WebError(403, f"this file has whole ids: it needs the role {LEAST_ROLE[Permission.READ_IDS]}")

    return admitted


def guarded(pages: FastAPI) -> FastAPI:
    """Give pages the error responses, limits and headers of the control plane."""
    problems.install(pages)
    pages.add_middleware(Guard)
    return pages

"""All pages of the control plane in one application: rules and alerts, runbooks, logs and reports."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fraud_control.domain.errors import Unavailable
from fraud_control.domain.roles import Role
from fraud_control.web.app import create_app
from fraud_control.web.documents import report_pages, runbook_pages
from fraud_control.web.documents.protection import admission, guarded
from fraud_control.web.login.logins import Logins
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

"""The application of the control plane: public pages, and an API that requires a login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Match, Mount, Route
from starlette.types import Scope

from fraud_control.web import problems
from fraud_control.web.extensions import extensions
from fraud_control.web.guard import Guard
from fraud_control.web.load.lanes import Lanes
from fraud_control.web.load.rates import Throttle
from fraud_control.web.login.logins import ReadLogin
from fraud_control.web.openapi import describe
from fraud_control.web.routes import (
    admin,
    alert_searches,
    alerts,
    audit,
    cases,
    collections,
    data_health,
    decisions,
    detector,
    entities,
    labels,
    notifications,
    privacy,
    program_tokens,
    rules,
    search,
    today,
)
from fraud_control.web.service import Opener, ServiceHolder
from fraud_control.web.submissions import Submissions

_STATIC = Path(__file__).parents[1] / "static"
_LEAST_ZIPPED = 1_400  # bytes; a smaller answer fits in one packet
_ASSETS_KEPT = "public, max-age=31536000, immutable"  # the name of an asset changes with its content


def create_app(opener: Opener, read_login: ReadLogin, static: Path = _STATIC) -> FastAPI:
    """Create the application with all routes. At the server's start, `opener` creates the control plane that
    routes use. `read_login` reads the login of a request."""
    application = FastAPI(
        title="Fraud rules",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=_name,
        lifespan=_lifespan,
    )
    application.state.service = ServiceHolder(opener)
    application.state.read_login = read_login
    application.state.throttle = Throttle()
    application.state.submissions = Submissions()
    added = (extension.routes for extension in extensions().values())
    own = (
        admin, program_tokens, audit, rules, collections, alert_searches, alerts, cases, decisions, entities, labels,
        detector, data_health, notifications, privacy, today, search,
    )  # fmt: skip
    for routes in (*(each.routes for each in own), *added):
        application.include_router(routes)
    _add_pages(application, static)
    application.add_middleware(Guard)
    application.add_middleware(GZipMiddleware, minimum_size=_LEAST_ZIPPED, compresslevel=1)
    problems.install(application)
    application.openapi = lambda: describe(application)  # type: ignore[method-assign]
    return application


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    """Start and stop the service."""
    service: ServiceHolder = application.state.service
    application.state.lanes = lanes = Lanes()
    service.start(asyncio.get_running_loop())
    try:
        yield
    finally:
        lanes.close()
        await asyncio.to_thread(service.stop)


def _add_pages(application: FastAPI, static: Path) -> None:
    @application.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        """Serve the page. It holds no data, because all data comes from the API."""
        index = static / "index.html"
        if not index.is_file():
            return problems.problem(404, "the pages have not been built: see plugins/fraud_control/ui")
        # The files of the page lie below the path at which a browser sees these pages, for each address of a page.
        text = index.read_text("utf-8").replace('"./', f'"{escape(request.scope.get("root_path", ""))}/')
        return HTMLResponse(text, headers={"Cache-Control": "no-cache"})

    application.router.routes.append(Mount("/assets", _Assets(directory=static / "assets", check_dir=False)))
    application.router.routes.append(_Page("/{rest:path}", page, include_in_schema=False))


class _Page(Route):
    """Any other address that a browser requests. The page reads from it what it has to show, and says if it is no page.
    The API has its own errors.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        wants_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"") if scope["type"] == "http" else False
        if not wants_page or path.startswith(("/api/", "/assets/")):
            return Match.NONE, {}
        return super().matches(scope)


class _Assets(StaticFiles):
    """The files of the page, cached by browsers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = _ASSETS_KEPT
        return response


def _name(route: APIRoute) -> str:
    head, *rest = route.name.split("_")
    return head + "".join(map(str.title, rest))

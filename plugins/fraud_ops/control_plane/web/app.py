"""The application that Airflow mounts: public pages, and an API that requires a login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic.json_schema import models_json_schema
from starlette.routing import Match, Mount, Route
from starlette.types import Scope

from fraud_ops.control_plane.domain.read_models import RuleChanged
from fraud_ops.control_plane.paths import PAGES
from fraud_ops.control_plane.web import problems
from fraud_ops.control_plane.web.bootstrap import compose_here
from fraud_ops.control_plane.web.extensions import extensions
from fraud_ops.control_plane.web.guard import Guard
from fraud_ops.control_plane.web.load.garbage import LongCollections
from fraud_ops.control_plane.web.load.interpreter import short_turns
from fraud_ops.control_plane.web.load.lanes import Lanes
from fraud_ops.control_plane.web.load.pace import Pace
from fraud_ops.control_plane.web.load.rates import Throttle
from fraud_ops.control_plane.web.load.read_budget import ReadBudget
from fraud_ops.control_plane.web.load.shared_reads import SharedReads
from fraud_ops.control_plane.web.routes import (
    admin,
    alert_searches,
    alerts,
    audit,
    cases,
    decisions,
    detector,
    entities,
    labels,
    lists,
    notifications,
    rules,
    today,
)
from fraud_ops.control_plane.web.schemas.alerts import Alert, AlertBatch, CorrectionEvent, Gap
from fraud_ops.control_plane.web.schemas.base import Problem
from fraud_ops.control_plane.web.service import Opener, ServiceHolder
from fraud_ops.control_plane.web.submissions import PARAMETER, Submissions

__all__ = ["app", "create_app"]

_PAGES = (
    "today",
    "rules",
    "lists",
    "alerts",
    "cases",
    "entity",
    "decisions",
    "approvals",
    "quality",
    "notifications",
    "detector",
    "api-docs",
    "audit",
    "admin",
    "demo",
)
_STATIC = Path(__file__).parents[1] / "static"
_EVENTS: tuple[type[Any], ...] = (Alert, AlertBatch, CorrectionEvent, Gap, RuleChanged, Problem)
_SECURITY = {"Airflow": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
_ASSETS_KEPT = "public, max-age=31536000, immutable"  # the name of an asset changes with its content


def create_app(opener: Opener = compose_here, static: Path = _STATIC) -> FastAPI:
    """Create the application with all routes. At the server's start, `opener` creates the control plane that
    routes use."""
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
    application.state.throttle = Throttle()
    application.state.pace = Pace()
    application.state.shared_reads = SharedReads()
    application.state.submissions = Submissions()
    added = (extension.routes for extension in extensions().values())
    own = (
        admin, audit, rules, lists, alert_searches, alerts, cases, decisions, entities, labels, detector, notifications,
        today,
    )  # fmt: skip
    for routes in (*(each.routes for each in own), *added):
        application.include_router(routes)
    _add_pages(application, static)
    application.add_middleware(Guard)
    problems.install(application)
    application.openapi = lambda: _openapi(application)  # type: ignore[method-assign]
    return application


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    """Start and stop the service. Airflow enters the lifespan of each application that it mounts."""
    service: ServiceHolder = application.state.service
    application.state.lanes = lanes = Lanes()
    application.state.read_budget = ReadBudget()
    collections = LongCollections()
    collections.install()
    service.start(asyncio.get_running_loop())
    try:
        with short_turns():
            yield
    finally:
        collections.remove()
        lanes.close()
        await asyncio.to_thread(service.stop)


def _add_pages(application: FastAPI, static: Path) -> None:
    @application.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        """Serve the page. It holds no data, because all data comes from the API."""
        index = static / "index.html"
        if not index.is_file():
            return problems.problem(404, "the pages have not been built: see plugins/fraud_ops/control_plane/ui")
        # The files of the page lie below the path at which Airflow serves these pages, for each address of a page.
        text = index.read_text("utf-8").replace('"./', f'"{escape(request.scope.get("root_path", ""))}/')
        return HTMLResponse(text, headers={"Cache-Control": "no-cache"})

    for name in _PAGES:
        # Reloads and bookmarks request these addresses. The page reads from the address what it has to show.
        application.add_api_route(f"/{name}", page, include_in_schema=False)
        application.add_api_route(f"/{name}/{{rest}}", page, include_in_schema=False)
    application.router.routes.append(Mount("/assets", _Assets(directory=static / "assets", check_dir=False)))
    application.router.routes.append(_UnknownPage("/{rest:path}", page, include_in_schema=False))


class _UnknownPage(Route):
    """Any other address of a browser: the page says that it does not exist. The API has its own errors."""

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


def _openapi(application: FastAPI) -> dict[str, Any]:
    """Build the API description, with the events of the stream and the format of errors."""
    if application.openapi_schema is None:
        document = get_openapi(title=application.title, version=application.version, routes=application.routes)
        _, models = models_json_schema(
            [(model, "serialization") for model in _EVENTS], ref_template="#/components/schemas/{model}"
        )
        schemas = document["components"]["schemas"]
        schemas |= models["$defs"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        document["components"]["securitySchemes"] = _SECURITY
        document["security"] = [{"Airflow": []}]
        document["servers"] = [{"url": PAGES}]
        for path in document["paths"].values():
            if "post" in path:
                path["post"]["parameters"] = [*path["post"].get("parameters", ()), PARAMETER]
        for operation in (each for path in document["paths"].values() for each in path.values()):
            operation["responses"].pop("422", None)
            problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
            operation["responses"]["default"] = {"description": "A problem.", "content": problem}
        application.openapi_schema = document
    return application.openapi_schema


app = create_app()

"""The application that Airflow mounts: pages for everybody, the API for those who are logged in."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from fraud_ops.control_plane.web.routes import admin, alerts, detector, rules
from fraud_ops.control_plane.web.shapes.alerts import Alert, AlertBatch, CorrectionEvent, Gap, RuleChanged
from fraud_ops.control_plane.web.shapes.base import Problem
from fraud_ops.control_plane.web.shapes.detector import ProgressPoint

__all__ = ["PREFIX", "app", "create_app"]

PREFIX = "/fraud/control"

_EVENTS = (Alert, AlertBatch, CorrectionEvent, Gap, RuleChanged, ProgressPoint, Problem)
_SECURITY = {"Airflow": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}


def create_app() -> FastAPI:
    """The application with all its routes."""
    application = FastAPI(
        title="Fraud rules",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=_name,
    )
    for routes in (admin.routes, rules.routes, alerts.routes, detector.routes):
        application.include_router(routes)
    application.openapi = lambda: _openapi(application)  # type: ignore[method-assign]
    return application


def _name(route: APIRoute) -> str:
    head, *rest = route.name.split("_")
    return head + "".join(map(str.title, rest))


def _openapi(application: FastAPI) -> dict[str, Any]:
    """The description, with what comes over the stream and with errors as they are."""
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
        document["servers"] = [{"url": PREFIX}]
        for operation in (each for path in document["paths"].values() for each in path.values()):
            operation["responses"].pop("422", None)
            problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
            operation["responses"]["default"] = {"description": "A problem.", "content": problem}
        application.openapi_schema = document
    return application.openapi_schema


app = create_app()

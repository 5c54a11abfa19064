"""The description of the API, from which `bin/ui` generates the types of the pages."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from fraud_control.domain.read_models import RuleChanged
from fraud_control.web.schemas.alerts import Alert, AlertBatch, CorrectionEvent, Gap
from fraud_control.web.schemas.base import Problem
from fraud_control.web.submissions import PARAMETER
from fraud_ops.paths import PAGES

_EVENTS: tuple[type[Any], ...] = (Alert, AlertBatch, CorrectionEvent, Gap, RuleChanged, Problem)
_SECURITY: Final = {
    "Airflow": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "Program": {"type": "http", "scheme": "bearer", "bearerFormat": "fraud_", "description": "A token for a program."},
}


def describe(application: FastAPI) -> dict[str, Any]:
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
        document["security"] = [{name: []} for name in _SECURITY]
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


def text(application: FastAPI) -> str:
    """Encode the API description of the application."""
    return json.dumps(application.openapi(), indent=1, sort_keys=True) + "\n"

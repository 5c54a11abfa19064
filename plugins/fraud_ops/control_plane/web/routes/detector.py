"""The detector's panel, what-ifs, and the demo's traffic."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from fraud_ops.control_plane.web.routing import least, router
from fraud_ops.control_plane.web.shapes import detector as shapes

__all__ = ["routes"]

routes = router("detector")


@routes.get("/progress", response_model=shapes.Progress, openapi_extra=least("viewer"))
def progress(minutes: Annotated[int, Query(ge=1, le=60)] = 15) -> Response:
    """Verdict, rate, lag and latency, and what came late or was refused."""
    raise NotImplementedError


@routes.post("/whatif", status_code=202, response_model=shapes.WhatIfStarted, openapi_extra=least("analyst"))
def start_what_if(body: shapes.WhatIfRequest) -> Response:
    """Evaluate a rule over past days; publishes nothing."""
    raise NotImplementedError


@routes.get("/whatif/{what_if_id}", response_model=shapes.WhatIf, openapi_extra=least("analyst"))
def get_what_if(what_if_id: Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]) -> Response:
    """How far it is, and what it found."""
    raise NotImplementedError


@routes.get("/demo", response_model=shapes.Demo, openapi_extra=least("viewer"))
def demo() -> Response:
    """The demo's traffic; 404 where there is none to steer."""
    raise NotImplementedError


@routes.post("/demo/speed", response_model=shapes.Demo, openapi_extra=least("analyst"))
def set_speed(body: shapes.DemoSpeed) -> Response:
    """How fast it is to come."""
    raise NotImplementedError


@routes.post("/demo/fraud", status_code=202, response_model=shapes.PlantedFraud, openapi_extra=least("analyst"))
def plant_fraud(body: shapes.DemoFraud) -> Response:
    """Put a fraud into it."""
    raise NotImplementedError

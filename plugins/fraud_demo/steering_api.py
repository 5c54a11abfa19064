"""The API that steers the demo's traffic: an extension of the control plane, named in pyproject.toml as an entry point.

It has traffic to steer when FRAUD_DEMO_STEERING names the folder of a running demo.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from fastapi import Response
from pydantic import Field

from fraud_control.domain.errors import NotFound
from fraud_control.web.answer import answer
from fraud_control.web.problems import WebError
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.base import Request, ResponseModel
from fraud_demo.fraud_patterns import FRAUDS
from fraud_demo.steering import VARIABLE, Steering, TrafficState

routes = router("detector")


class Demo(ResponseModel):
    """The demo's traffic: transactions per second, and the fraud patterns that can be planted."""

    per_s: int
    max_per_s: int
    patterns: list[str]


class DemoSpeed(Request):
    """The new number of transactions per second; 0 stops the traffic."""

    per_s: Annotated[int, Field(ge=0, le=5_000)]


class DemoFraud(Request):
    """The pattern to plant."""

    pattern: Annotated[str, Field(max_length=100)]


class PlantedFraud(ResponseModel):
    """A planted fraud. `label` marks its transactions."""

    pattern: str
    label: str


def is_active() -> bool:
    """Whether a demo sends traffic that can be steered."""
    steering = _steering()
    return steering is not None and steering.state() is not None


@routes.get("/demo", response_model=Demo, openapi_extra=least("viewer"))
def demo() -> Response:
    """Read the demo's traffic; 404 if there is no traffic to steer."""
    _, state = _steered()
    return answer(_shown(state))


@routes.post("/demo/speed", response_model=Demo, openapi_extra=least("analyst"))
def set_speed(body: DemoSpeed) -> Response:
    """Set the speed of the traffic. The response has the new speed."""
    steering, _ = _steered()
    steering.set_speed(body.per_s)
    return answer(_shown(TrafficState(body.per_s)))


@routes.post("/demo/fraud", status_code=202, response_model=PlantedFraud, openapi_extra=least("analyst"))
def plant_fraud(body: DemoFraud) -> Response:
    """Plant a fraud in the traffic."""
    steering, _ = _steered()
    if body.pattern not in FRAUDS:
        raise WebError(422, f"pattern must be one of {', '.join(FRAUDS)}")
    request = steering.plant(body.pattern)
    return answer(PlantedFraud(pattern=request.pattern, label=request.label), 202)


def _steering() -> Steering | None:
    folder = os.environ.get(VARIABLE)
    return Steering(Path(folder)) if folder else None


def _steered() -> tuple[Steering, TrafficState]:
    steering = _steering()
    state = None if steering is None else steering.state()
    if steering is None or state is None:
        raise NotFound("no demo traffic is running here")
    return steering, state


def _shown(state: TrafficState) -> Demo:
    return Demo(per_s=state.per_s, max_per_s=state.max_per_s, patterns=list(FRAUDS))

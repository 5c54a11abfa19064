"""A route of the API: who may use it is checked before anything else of a request is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from fraud_ops.control_plane.web.auth import admit
from fraud_ops.control_plane.web.shapes.admin import RoleName

__all__ = ["GuardedRoute", "least", "router"]

_ROLE = "x-role"


class ExactRequest(Request):
    """Numbers with a fraction keep their digits."""

    async def json(self) -> Any:
        if not hasattr(self, "_exact"):
            self._exact = json.loads(await self.body(), parse_float=Decimal, parse_constant=_refuse)
        return self._exact


class GuardedRoute(APIRoute):
    """Asks who it is and what they may before the body is read; a route that names no role is for nobody."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        role = (self.openapi_extra or {})[_ROLE]

        async def guarded(request: Request) -> Response:
            await admit(request, role)
            return await handle(ExactRequest(request.scope, request.receive))

        return guarded


def least(role: RoleName | None) -> dict[str, Any]:
    """What a route says of the role it takes; None for whoever is logged in."""
    return {_ROLE: role or "none"}


def router(tag: str) -> APIRouter:
    """Routes about one thing."""
    return APIRouter(prefix="/api", tags=[tag], route_class=GuardedRoute)


def _refuse(constant: str) -> Any:
    raise json.JSONDecodeError(f"{constant} is no JSON", constant, 0)

"""A route of the API: who may use it is checked before anything else of a request is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from fraud_ops.control_plane.domain.roles import Role
from fraud_ops.control_plane.web.auth import admit
from fraud_rules.runtime.safe_text import unprintable

__all__ = ["GuardedRoute", "least", "router"]

_ROLE = "x-role"
_ANYBODY = "none"


class ExactRequest(Request):
    """Numbers with a fraction keep their digits."""

    async def json(self) -> Any:
        text = (await self.body()).decode("utf-8")
        content = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        if "\\u" in text and any(unprintable(each) for each in _texts(content)):
            raise json.JSONDecodeError("a text holds a NUL or half of a surrogate pair", text[:100], 0)
        return content


class GuardedRoute(APIRoute):
    """Asks who it is and what they may before the body is read; a route that names no role is for nobody."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        named = (self.openapi_extra or {})[_ROLE]
        role = None if named == _ANYBODY else Role(named)

        async def guarded(request: Request) -> Response:
            await admit(request, role)
            exact = ExactRequest(request.scope, request.receive)
            await exact.body()  # here, so that one that is too large is said to be that
            return await handle(exact)

        return guarded


def least(role: str | None) -> dict[str, Any]:
    """What a route says of the role it takes; None for whoever is logged in."""
    return {_ROLE: role or _ANYBODY}


def router(tag: str) -> APIRouter:
    """Routes about one thing."""
    return APIRouter(prefix="/api", tags=[tag], route_class=GuardedRoute)


def _texts(content: object) -> Iterator[str]:
    """Every text in a document, names included. Not by recursion: a body may be as deep as the parser allows."""
    waiting = [content]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as members:
                waiting += [*members, *members.values()]
            case list() as items:
                waiting += items


def _refuse(constant: str) -> Any:
    raise json.JSONDecodeError(f"{constant} is no JSON", constant, 0)

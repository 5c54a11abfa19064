"""The route class of the API: it checks the user's role before it reads the body of a request, runs the route's
function in a thread of the control plane, and masks its answer for roles that see masked values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from decimal import Decimal
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from fraud_control.domain.roles import Role
from fraud_control.web.answer import MEDIA_TYPES, masked
from fraud_control.web.auth import admit, makes_changes
from fraud_control.web.load.lanes import Lane, LaneName
from fraud_control.web.schemas.base import MAX_ID
from fraud_control.web.submissions import executed_once, submission_of
from fraud_rules.runtime.safe_text import is_unprintable

_ROLE = "x-role"
_LANE = "x-lane"
_ANYBODY = "none"
_SAFE = frozenset({"GET", "HEAD"})

Before = Annotated[int | None, Query(ge=1, le=MAX_ID)]
Limit = Annotated[int, Query(ge=1, le=200)]
FileForm = Annotated[Literal["json", "yaml", "text"], Query(alias="format")]
DryRun = Annotated[bool, Query(alias="dryRun")]

_request: ContextVar[Request] = ContextVar("_request")


class ExactRequest(Request):
    """A request whose JSON body keeps all digits of fractional numbers."""

    async def json(self) -> Any:
        text = (await self.body()).decode("utf-8")
        content = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        if "\\u" in text and any(is_unprintable(each) for each in _texts(content)):
            raise json.JSONDecodeError("a text contains NUL or half of a surrogate pair", text[:100], 0)
        return content


class GuardedRoute(APIRoute):
    """Checks the login and the role before the body is read. Each route must name a role, else its set-up fails.

    A function that is not a coroutine runs in the lane that the route names, by default `reads` or `changes`.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not iscoroutinefunction(endpoint):
            endpoint = _in_lane(endpoint, _lane(options), reads=set(options.get("methods") or ()) <= _SAFE)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        named = (self.openapi_extra or {})[_ROLE]
        role = None if named == _ANYBODY else Role(named)

        async def guarded(request: Request) -> Response:
            await admit(request, role)
            exact = ExactRequest(request.scope, request.receive)
            await exact.body()  # here, so that a body that is too large gets its own error
            _request.set(exact)
            return await handle(exact)

        return guarded


def least(role: str | None, lane: LaneName | None = None) -> dict[str, Any]:
    """Name the lowest role for a route (None: any user who is logged in), and a lane other than the default one."""
    return {_ROLE: role or _ANYBODY} | ({} if lane is None else {_LANE: lane.value})


def change_of(model: type[BaseModel], further: Mapping[int | str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """The options of a route that changes an item of this model, at once or after an approval."""
    awaits = {"model": model, "description": "The change waits for the approval of a second person."}
    responses = {202: awaits, **(further or {})}
    return {"response_model": model, "responses": responses, "openapi_extra": least("analyst")}


def file_of_items(*media_types: str) -> dict[str, Any]:
    """The options of a route that exports a file."""
    content = {each: {"schema": {"type": "string"}} for each in media_types or MEDIA_TYPES.values()}
    return {"response_class": Response, "responses": {200: {"content": content}}, "openapi_extra": least("viewer")}


def router(tag: str) -> APIRouter:
    """Create a router for the routes of one tag."""
    return APIRouter(prefix="/api", tags=[tag], route_class=GuardedRoute)


def _lane(options: Mapping[str, Any]) -> LaneName:
    default = LaneName.READS if set(options.get("methods") or ()) <= _SAFE else LaneName.CHANGES
    return LaneName((options.get("openapi_extra") or {}).get(_LANE, default))


def _in_lane(
    function: Callable[..., Response], name: LaneName, *, reads: bool
) -> Callable[..., Coroutine[Any, Any, Response]]:
    @wraps(function)
    async def in_lane(**named: Any) -> Response:
        request = _request.get()
        state = request.app.state
        changer = makes_changes(request.state.fraud_role)
        # Users who may change rules do not wait for the reads of viewers.
        lane: Lane = state.lanes[LaneName.READS_FOR_CHANGES if changer and name is LaneName.READS else name]
        user: str = request.state.fraud_user
        call = partial(function, **named)
        plane = state.service()
        if plane.masking.hides_from(request.state.fraud_role):
            call = partial(masked, plane.masking.of(request.state.fraud_role), call)
        submission = None if reads else await submission_of(request, user)
        if submission is None:
            return await lane.run(user, call)
        async with state.submissions.turn(submission):
            return await lane.run(user, partial(executed_once, plane.store, submission, call))

    return in_lane


def _texts(content: object) -> Iterator[str]:
    """Yield all texts of a document, including names, without recursion: a body may be as deep as the parser allows."""
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
    raise json.JSONDecodeError(f"{constant} is not JSON", constant, 0)

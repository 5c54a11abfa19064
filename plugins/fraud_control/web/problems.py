"""Errors as `application/problem+json`, each kind with its own type. Internal details go only to the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fraud_control.domain.errors import (
    Conflict,
    LimitReached,
    NotFound,
    RefusalCause,
    RequestRefused,
    Unavailable,
)
from fraud_control.domain.read_models import ProblemReason
from fraud_control.web.answer import encode
from fraud_control.web.schemas.base import Problem
from fraud_ops.paths import PAGES
from fraud_rules.errors import ArchiveUnreachable, BrokerUnavailable, FraudError, InputInvalid, RuleRejected
from fraud_rules.runtime.value_faults import fault_text

MEDIA_TYPE = "application/problem+json"
TYPES = f"{PAGES}/problems/"

_log = logging.getLogger(__name__)
_RETRY = {"Retry-After": "2"}
_SHOWN_REASONS = 100
_TITLES_BY_SLUG = {
    "cross-origin": "Request of another site",
    RefusalCause.SECOND_PERSON: "A second person must decide",
    RefusalCause.NOT_THE_AUTHOR: "Only the author and admins may change this",
    RefusalCause.PERSON_ONLY: "Only a person may do this",
}
_TITLES = {
    400: ("malformed", "Malformed request"),
    401: ("not-logged-in", "Log in first"),
    403: ("role-too-small", "Your role does not allow this"),
    404: ("not-found", "Not found"),
    405: ("method", "Method not allowed"),
    409: ("refused", "Not possible in the current state"),
    412: ("stale", "Changed by another user"),
    413: ("too-large", "The request is too large"),
    422: ("invalid", "Invalid input"),
    428: ("precondition", "The revision is missing"),
    429: ("too-many", "Too many requests"),
    500: ("internal", "Internal error"),
    503: ("unavailable", "Temporarily unavailable"),
}


class WebError(FraudError):
    """An error response with its HTTP status. It never ends a process, so it has no exit code of its own."""

    def __init__(self, status: int, detail: str, slug: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug


def problem(status: int, detail: str, reasons: Sequence[ProblemReason] = (), slug: str | None = None) -> Response:
    """Build the response to a request that failed."""
    known, title = _TITLES.get(status, ("error", "The request failed"))
    schema = Problem(
        type=TYPES + (slug or known),
        title=_TITLES_BY_SLUG.get(slug or "", title),
        status=status,
        detail=detail,
        reasons=list(reasons)[:_SHOWN_REASONS],
    )
    headers = _RETRY if status in (429, 503) else None
    return Response(encode(schema.model_dump(by_alias=True)), status, headers, MEDIA_TYPE)


def reasons_shown(reasons: Iterable[object]) -> list[ProblemReason]:
    """Convert the reasons of an error."""
    return [ProblemReason.model_validate(reason) for reason in reasons]


def install(application: FastAPI) -> None:
    """Register handlers that turn each error into a problem response."""
    application.add_exception_handler(FraudError, _ours)
    application.add_exception_handler(RequestValidationError, _malformed)
    application.add_exception_handler(HTTPException, _http)
    application.add_exception_handler(Exception, _unforeseen)


async def _ours(request: Request, error: Exception) -> Response:
    match error:
        case WebError():
            return problem(error.status, str(error), slug=error.slug)
        case RuleRejected():
            return problem(422, str(error), reasons_shown(error.reasons))
        case NotFound():
            return problem(404, str(error))
        case Conflict():
            return problem(412 if "if-match" in request.headers else 409, str(error))
        case LimitReached():
            return problem(429, str(error))
        case RequestRefused():
            return problem(403 if error.forbidden else 409, str(error), slug=error.cause)
        case InputInvalid():
            return problem(422, str(error))
        case Unavailable() | BrokerUnavailable() | ArchiveUnreachable():
            _log.warning("%s %s: %s", request.method, _path(request), _line(error))
            return problem(503, str(error))
        case _:
            return await _unforeseen(request, error)


async def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    unreadable = [fault for fault in faults if fault["type"] == "json_invalid"]
    if unreadable:
        return problem(400, f"the body is not valid JSON: {unreadable[0]['ctx']['error']}")
    reasons = [ProblemReason(field=_place(fault["loc"]), message=fault_text(fault)) for fault in faults]
    return problem(422, "; ".join(f"{r.field}: {r.message}" for r in reasons)[:1_000], reasons)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail))


async def _unforeseen(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, _path(request), exc_info=error)
    return problem(500, "an unexpected error; see the log of the control plane")


def _place(where: Sequence[object]) -> str:
    """Name a member by its path without its part of the request, such as `limits.3`."""
    return ".".join(map(str, where[1:] or where))


def _path(request: Request) -> str:
    return ascii(request.url.path)[1:-1]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())

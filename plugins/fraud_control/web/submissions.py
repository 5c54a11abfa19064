"""The header `Idempotency-Key`: a request that a client repeats gets its first answer, and changes nothing twice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from fastapi import Request, Response

from fraud_control.domain.errors import RequestRefused, Unavailable
from fraud_control.service.store_access import StoreAccess
from fraud_control.store import submissions
from fraud_control.store.submissions import KEY_CHARS, Submission, SubmissionRow
from fraud_control.web.answer import NOT_KEPT
from fraud_control.web.problems import WebError

HEADER: Final = "Idempotency-Key"
PARAMETER: Final[dict[str, Any]] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A new value for each request. A repeated request gets the first answer, and changes nothing twice.",
    "schema": {"type": "string", "maxLength": KEY_CHARS},
}
"""The header in the API description. Each POST accepts it."""

_REPEATED: Final = "Idempotent-Replayed"
_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARS}}}")
_MOST_BYTES: Final = 65_536
_OWN_HEADERS: Final = ("etag", "content-type")

_log = logging.getLogger(__name__)


class Submissions:
    """The submissions that run in this process. Only the event loop may use it."""

    def __init__(self) -> None:
        self._running: WeakValueDictionary[Submission, asyncio.Lock] = WeakValueDictionary()

    def turn(self, submission: Submission) -> asyncio.Lock:
        """A lock that lets a repeated submission wait for the first one."""
        return self._running.setdefault(submission, asyncio.Lock())


async def submission_of(request: Request, user: str) -> Submission | None:
    """The submission of a request; None for a request that has no key or is no POST. Raises WebError (422)."""
    key = request.headers.get(HEADER)
    if key is None or request.method != "POST":
        return None
    if not _KEY.fullmatch(key):
        raise WebError(422, f"{HEADER} must have 1 to {KEY_CHARS} visible ASCII characters")
    content = f"{request.url.path}?{request.url.query}\0".encode() + await request.body()
    return Submission(user, key, hashlib.sha256(content).hexdigest())


def executed_once(store: StoreAccess, submission: Submission, function: Callable[[], Response]) -> Response:
    """Run a function and keep its response, or return the response of the first time. Raises RequestRefused if it ran
    before without an answer that was kept, and what the function raises.
    """
    with store.database.reading() as session:
        first = submissions.find(session, submission, store.clock_ms())
    if first is not None:
        return _repeated(first)
    running = submissions.current.set(submission)
    try:
        response = function()
        changed = submissions.current.get() is None
    finally:
        submissions.current.reset(running)
    if changed or response.status_code in (201, 202):  # tests of receivers do not change the store
        _keep(store, submission, response)
    return response


def _repeated(first: SubmissionRow) -> Response:
    if first.status is None or first.answer is None:
        raise RequestRefused(f"the request with this {HEADER} was executed, and its answer was not kept: reload")
    return Response(first.answer, first.status, {**json.loads(first.headers or "{}"), _REPEATED: "true"})


def _keep(store: StoreAccess, submission: Submission, response: Response) -> None:
    body = bytes(response.body)
    headers = json.dumps({name: value for name, value in response.headers.items() if name in _OWN_HEADERS})
    secret = response.headers.get("cache-control") == NOT_KEPT["Cache-Control"]
    kept = None if secret or len(body) > _MOST_BYTES else body
    try:
        with store.database.writing() as session:
            submissions.keep(session, submission, store.clock_ms(), response.status_code, headers, kept)
    except Unavailable:  # the change is saved, so its client gets the answer
        _log.warning("the answer of a request with an %s could not be kept", HEADER, exc_info=True)

"""Answers equal reads that wait for a thread at the same time with one execution.

Many users who look at one page ask for the same documents. A read joins another one only before that one has begun, so
it sees every change that was made before it was asked.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Hashable

from fastapi import Response

from fraud_ops.control_plane.web.load.lanes import Lane
from fraud_ops.control_plane.web.load.read_budget import ReadBudget
from fraud_ops.control_plane.web.problems import WebError

__all__ = ["SharedReads"]


class SharedReads:
    """The reads that wait in all lanes. Only the event loop may use it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, asyncio.Task[Response]] = {}

    async def run(
        self, key: Hashable, lane: Lane, user: str, call: Callable[[], Response], budget: ReadBudget | None = None
    ) -> Response:
        """Return the result of `call`, or of a waiting call with the same key.

        Raises what `Lane.run` raises. A read whose partner is refused runs by itself.
        """
        partner = self._waiting.get(key)
        if partner is not None:
            try:
                return _copied(await asyncio.shield(partner))
            except WebError:
                return await lane.run(user, call, budget=budget)
        task = asyncio.create_task(lane.run(user, call, lambda: self._waiting.pop(key, None), budget))
        self._waiting[key] = task
        task.add_done_callback(lambda _: self._forget(key, task))
        # The task continues if this client goes away, because others may wait for it.
        return _copied(await asyncio.shield(task))

    def _forget(self, key: Hashable, task: asyncio.Task[Response]) -> None:
        if self._waiting.get(key) is task:
            del self._waiting[key]
        if not task.cancelled():
            task.exception()  # its client may have gone away


def _copied(response: Response) -> Response:
    """A response with headers of its own, because middleware changes them in place."""
    own = copy.copy(response)
    own.__dict__.pop("_headers", None)
    own.raw_headers = list(response.raw_headers)
    return own

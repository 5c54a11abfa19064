"""The processes that read payments for the pages.

Decoding and evaluating payments would hold Python's interpreter lock, and the event loop would wait for it. anyio
starts such a process when a question needs one, keeps it for the next question, and starts another one after its end.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from functools import cache, partial
from typing import Final, Self, TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process
from anyio.from_thread import start_blocking_portal

from fraud_control.domain.errors import NotFound, Unavailable
from fraud_rules.errors import FraudError, NotProvable

S = TypeVar("S")
Q = TypeVar("Q")

_log = logging.getLogger(__name__)

PROCESSES: Final = 2
"""The lanes of the questions have as many threads, so no answer waits for a process within its limit."""
_NICE: Final = 5
_ANSWER_S: Final = 600.0
"""The longest time of an answer; then its process ends. The questions and the Kafka client have bounds far below it,
but the first question may compile the kernel."""


class ReadingPool:
    """Answers questions in processes of its own. Several threads may ask. Use it as a context manager."""

    def __init__(self) -> None:
        self._processes = CapacityLimiter(PROCESSES)
        self._context = start_blocking_portal(name="fraud-control-reads")

    def __enter__(self) -> Self:
        self._portal = self._context.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, also in the middle of an answer."""
        self._portal.call(self._portal.stop, True)
        self._context.__exit__(None, None, None)

    def ask(self, answer: Callable[[S, Q], bytes], source: S, question: Q, too_slow: str) -> bytes:
        """Return `answer(source, question)`. `answer` is a function of a module.

        Raises Unavailable: with the message of a FraudError of `answer`, with `too_slow` after the longest time, or if
        the process has ended. Raises NotFound for a NotProvable of `answer`.
        """
        return self._portal.call(partial(self._ask, partial(_answered, answer, source, question), too_slow))

    async def _ask(self, answer: Callable[[], bytes], too_slow: str) -> bytes:
        try:
            with fail_after(_ANSWER_S):
                return await to_process.run_sync(answer, cancellable=True, limiter=self._processes)
        except TimeoutError:
            raise Unavailable(too_slow) from None
        except BrokenWorkerProcess as error:
            _log.warning("a process that reads payments has ended: %s", repr(error.__cause__ or error))
            raise Unavailable("the process that reads payments has ended: try again") from None


def _answered(answer: Callable[[S, Q], bytes], source: S, question: Q) -> bytes:
    _prepare()
    try:
        return answer(source, question)
    except NotProvable as error:
        raise NotFound(" ".join(str(error).split())) from None
    except FraudError as error:
        raise Unavailable(" ".join(str(error).split())) from None


@cache
def _prepare() -> None:
    """Prepare the process, once."""
    os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    # A full collection would visit all objects of the loaded libraries: 0.2 s within an answer.
    gc.collect()
    gc.freeze()

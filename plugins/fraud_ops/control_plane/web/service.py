"""Holds the parts of the control plane in one API server process: the service, and the threads beside it.

They start and stop with Airflow. If the database or the broker is unreachable at the start, the holder waits for it.
Until then the API answers that it is unavailable, and the rest of Airflow works.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from fraud_ops.control_plane.composition import Parts
from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_rules.errors import FraudError

__all__ = ["ServiceHolder"]

_log = logging.getLogger(__name__)
_AGAIN_S = 2.0

Opener = Callable[[asyncio.AbstractEventLoop, ExitStack], Parts]
"""Creates the parts and registers their clean-up in the stack. Raises FraudError if it must be tried again."""


class ServiceHolder:
    """The parts of this process, once they exist."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._stack = ExitStack()
        self._parts: Parts | None = None
        self._why = "the control plane is starting"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self) -> Parts:
        """Return the parts. Raises Unavailable until they exist."""
        if self._parts is None:
            raise Unavailable(self._why)
        return self._parts

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to create the parts in a thread; return at once."""
        self._thread = threading.Thread(target=self._open, args=(loop,), name="fraud-control-start", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop all parts."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._parts = None
        self._stack.close()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            try:
                with ExitStack() as stack:
                    parts = self._opener(loop, stack)
                    self._stack = stack.pop_all()
            except FraudError as error:
                self._wait(" ".join(str(error).split()))
            except Exception as error:  # noqa: BLE001 -- an error here must not keep Airflow from running
                _log.exception("the control plane cannot start")
                self._wait(f"the control plane cannot start: {type(error).__name__}")
            else:
                self._parts = parts
                return

    def _wait(self, why: str) -> None:
        if why != self._why:
            _log.warning("the control plane failed to start and will be retried: %s", why)
        self._why = why
        self._stop.wait(_AGAIN_S)

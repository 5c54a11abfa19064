"""Holds the components of the control plane in one server: the service, and the threads beside it.

If the database or the broker is unreachable at the start, the holder waits for it. Until then the API answers that it
is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from fraud_control.composition import ControlPlane
from fraud_control.domain.errors import Unavailable
from fraud_rules.errors import FraudError

_log = logging.getLogger(__name__)
_AGAIN_S = 2.0

Opener = Callable[[asyncio.AbstractEventLoop, ExitStack], ControlPlane]
"""Creates the control plane and registers its clean-up in the stack. A FraudError leads to another attempt."""


class ServiceHolder:
    """The control plane of this process, once it has started."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._stack = ExitStack()
        self._plane: ControlPlane | None = None
        self._why = "the control plane is starting"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self) -> ControlPlane:
        """Return the control plane. Raises Unavailable until it has started."""
        if self._plane is None:
            raise Unavailable(self._why)
        return self._plane

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to create the control plane in a thread; return at once."""
        self._thread = threading.Thread(target=self._open, args=(loop,), name="fraud-control-start", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop all components."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._plane = None
        self._stack.close()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            try:
                with ExitStack() as stack:
                    plane = self._opener(loop, stack)
                    self._stack = stack.pop_all()
            except FraudError as error:
                self._wait(" ".join(str(error).split()))
            except Exception as error:  # noqa: BLE001 -- the API reports that the control plane cannot start
                _log.exception("the control plane cannot start")
                self._wait(f"the control plane cannot start: {type(error).__name__}")
            else:
                self._plane = plane
                return

    def _wait(self, why: str) -> None:
        if why != self._why:
            _log.warning("the control plane failed to start and will be retried: %s", why)
        self._why = why
        self._stop.wait(_AGAIN_S)

"""Repeats failed calls and checks of a condition, using tenacity. Every wait has a time limit or a stop event.

tenacity is imported where it is needed, so that a process whose work succeeds at once does not load it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TypeVar

from fraud_rules.errors import FraudError

if TYPE_CHECKING:
    from tenacity import RetryCallState

_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_STAND_BY_S: Final = 1.0
_T = TypeVar("_T")

_log = logging.getLogger(__name__)


def wait_for(
    condition: Callable[[], _T | None],
    *,
    within_s: float,
    every_s: float,
    timed_out: Callable[[], Exception],
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Call `condition` until it returns a true value, and return this value.

    Raises `timed_out()` after `within_s`, and at once any error that `condition` raises.
    """
    from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

    def expired(state: RetryCallState) -> _T:
        raise timed_out()

    answer = Retrying(
        retry=retry_if_result(lambda found: not found),
        stop=stop_after_delay(within_s),
        wait=wait_fixed(every_s),
        sleep=sleep,
        retry_error_callback=expired,
    )(condition)
    assert answer is not None
    return answer


def retried(
    call: Callable[[], _T],
    *,
    is_transient: Callable[[BaseException], bool],
    within_s: float,
    every_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Repeat `call` after transient errors, and return its result.

    Raises the last transient error after `within_s`, and at once any other error.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

    retrying = Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(within_s),
        wait=wait_fixed(every_s),
        sleep=sleep,
        reraise=True,
    )
    return retrying(call)


class RepeatedWork:
    """Work that starts again when it raises or returns, until it is stopped.

    The pause grows with each error in a row. The log gets a FraudError once while it repeats, and any other error each
    time. `failure` is the reason of the last error; None while the work succeeds. `ended_by` is the error that ended
    the work for good.
    """

    def __init__(self, name: str, *, ends_with: type[FraudError] | None = None) -> None:
        """An error `ends_with` ends the work."""
        self._name = name
        self._ends_with: tuple[type[FraudError], ...] = () if ends_with is None else (ends_with,)
        self.failure: str | None = None
        self.ended_by: FraudError | None = None
        self.pause_s = _PAUSE_S

    def run(self, work: Callable[[Self], None], stop: threading.Event) -> None:
        """Repeat `work` until `stop` is set. Its argument is this object, for `record_success` and `record_standby`."""
        from tenacity import Retrying, retry_if_exception, retry_if_result, sleep_using_event, stop_when_event_set

        if stop.is_set():
            return
        repeating = Retrying(
            retry=retry_if_exception(self._is_repeated) | retry_if_result(lambda _: True),
            after=self._record,
            stop=stop_when_event_set(stop),
            wait=lambda state: self.pause_s,
            sleep=sleep_using_event(stop),
            retry_error_callback=lambda state: None,
        )
        try:
            repeating(work, self)
        except self._ends_with as error:
            self.failure, self.ended_by = " ".join(str(error).split()), error
            _log.error("%s has ended: %s", self._name, self.failure)

    def _is_repeated(self, error: BaseException) -> bool:
        return isinstance(error, Exception) and not isinstance(error, self._ends_with)

    def record_standby(self) -> None:
        """Record that another process does the work. The next pause is one second."""
        self.failure, self.pause_s = None, _STAND_BY_S

    def record_success(self) -> None:
        """Record that the work succeeds. The next pause is short again."""
        self.failure, self.pause_s = None, _PAUSE_S

    def _record(self, state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        if error is None:
            return
        if isinstance(error, FraudError):
            reason = " ".join(str(error).split())
            if reason != self.failure:
                _log.warning("%s failed and will be retried: %s", self._name, reason)
        else:
            reason = f"{type(error).__name__}: see the log"
            _log.error("%s failed", self._name, exc_info=error)
        self.failure = reason
        self.pause_s = min(2 * self.pause_s, _LONGEST_PAUSE_S)

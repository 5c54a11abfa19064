"""Work that restarts after any error, and calls that are repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fraud_rules.errors import BrokerUnavailable, Fenced
from fraud_rules.runtime.retry import RepeatedWork, retried, wait_for


class Stop(threading.Event):
    """Records the pauses instead of waiting, and is set after so many of them."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.pauses: list[float | None] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        if len(self.pauses) >= self._after:
            self.set()
        return self.is_set()


def runs(name: str, pauses: int, work: Callable[[RepeatedWork], None]) -> tuple[RepeatedWork, list[float | None]]:
    repeated, stop = RepeatedWork(name), Stop(pauses)
    repeated.run(work, stop)
    return repeated, stop.pauses


def unavailable(attempt: RepeatedWork) -> None:
    raise BrokerUnavailable("away\nfor now")


def test_pauses_grow_to_a_limit_and_the_log_names_a_reason_once(caplog: pytest.LogCaptureFixture) -> None:
    repeated, pauses = runs("the outbox", 8, unavailable)
    assert pauses == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert [record.getMessage() for record in caplog.records] == ["the outbox failed and will be retried: away for now"]
    assert repeated.failure == "away for now"


def test_pauses_are_short_again_after_a_success() -> None:
    outcomes = iter([BrokerUnavailable("away"), BrokerUnavailable("away"), None, BrokerUnavailable("away")])

    def work(attempt: RepeatedWork) -> None:
        error = next(outcomes)
        if error is not None:
            raise error
        attempt.record_success()
        assert attempt.failure is None

    assert runs("the outbox", 4, work)[1] == [0.4, 0.8, 0.2, 0.4]


def test_a_standby_process_checks_every_second() -> None:
    repeated, pauses = runs("the outbox", 3, RepeatedWork.record_standby)
    assert pauses == [1.0, 1.0, 1.0]
    assert repeated.failure is None


def test_an_unexpected_error_is_logged_whole_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def work(attempt: RepeatedWork) -> None:
        raise ZeroDivisionError

    repeated, pauses = runs("the mirror", 2, work)
    assert len(pauses) == 2
    assert repeated.failure == "ZeroDivisionError: see the log"
    assert caplog.records[0].getMessage() == "the mirror failed"
    assert caplog.records[0].exc_info is not None


def test_an_interrupt_ends_the_work() -> None:
    def work(attempt: RepeatedWork) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RepeatedWork("the mirror").run(work, threading.Event())


def test_an_error_may_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    errors = iter([BrokerUnavailable("away"), Fenced("taken\nover")])

    def work(attempt: RepeatedWork) -> None:
        raise next(errors)

    repeated, stop = RepeatedWork("the outbox", ends_with=Fenced), Stop(9)
    repeated.run(work, stop)
    assert (stop.pauses, repeated.failure) == ([0.4], "taken over")
    assert caplog.records[-1].getMessage() == "the outbox has ended: taken over"


def test_work_that_is_stopped_before_it_begins_does_not_run() -> None:
    stop = threading.Event()
    stop.set()
    RepeatedWork("the mirror").run(unavailable, stop)


def test_an_answer_is_awaited_with_pauses() -> None:
    answers, pauses = iter([None, 0, 7]), list[float]()
    late = BrokerUnavailable("late")
    assert wait_for(lambda: next(answers), within_s=60, every_s=0.5, timed_out=lambda: late, sleep=pauses.append) == 7
    assert pauses == [0.5, 0.5]


def test_a_missing_answer_is_an_error_after_the_time() -> None:
    asked: list[int] = []

    def condition() -> bool:
        asked.append(1)
        return False

    with pytest.raises(BrokerUnavailable, match="late"):
        wait_for(condition, within_s=0, every_s=0, timed_out=lambda: BrokerUnavailable("late"))
    assert len(asked) == 1, "a question is asked at least once"


def test_an_error_of_the_question_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0, within_s=60, every_s=0, timed_out=lambda: BrokerUnavailable("late"))


def test_a_call_is_repeated_after_a_transient_error_only() -> None:
    outcomes = iter([BrokerUnavailable("away"), 7, BrokerUnavailable("away"), ZeroDivisionError()])

    def call() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def again() -> int:
        return retried(call, is_transient=is_away, within_s=60, every_s=0.5, sleep=lambda pause_s: None)

    assert again() == 7
    with pytest.raises(ZeroDivisionError):
        again()


def test_the_last_transient_error_is_raised_after_the_time() -> None:
    def call() -> int:
        raise BrokerUnavailable("away")

    with pytest.raises(BrokerUnavailable, match="away"):
        retried(call, is_transient=is_away, within_s=0, every_s=0)


def is_away(error: BaseException) -> bool:
    return isinstance(error, BrokerUnavailable)

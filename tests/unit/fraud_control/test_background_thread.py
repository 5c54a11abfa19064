"""A thread beside the API continues after any error, and reports the reason of its failures."""

from __future__ import annotations

import threading

import pytest

from fraud_control.background_thread import BackgroundThread
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.runtime.retry import RepeatedWork
from tests.support.waiting import until


class Failing(BackgroundThread):
    """Raises each error once, then works."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("failing")
        self._errors = list(errors)
        self.faults: list[str | None] = []
        self.works = threading.Event()

    def _work(self, attempt: RepeatedWork) -> None:
        self.faults.append(self.fault)
        if self._errors:
            raise self._errors.pop(0)
        attempt.record_success()
        self.works.set()
        self._stop.wait()


def test_an_error_is_logged_and_shown_and_the_work_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    thread = Failing(ZeroDivisionError(), BrokerUnavailable("Kafka is away"))
    thread.start()
    until(thread.works.is_set, "it works again")
    assert thread.faults == [None, "ZeroDivisionError: see the log", "Kafka is away"]
    assert thread.fault is None
    assert [record.getMessage() for record in caplog.records] == [
        "failing failed",
        "failing failed and will be retried: Kafka is away",
    ]
    thread.stop()
    assert not thread._thread.is_alive()

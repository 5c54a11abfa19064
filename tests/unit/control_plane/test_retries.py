"""Work that is begun again whatever ends it."""

from __future__ import annotations

import pytest

from fraud_ops.control_plane.retries import Attempts
from fraud_rules.errors import BrokerUnavailable


def attempt(attempts: Attempts, error: Exception | None) -> None:
    with attempts.another() as each:
        if error is not None:
            raise error
        each.succeeds()


def test_pauses_grow_to_a_bound_and_shrink_once_it_works(caplog: pytest.LogCaptureFixture) -> None:
    attempts, pauses = Attempts("the outbox"), []
    for _ in range(8):
        attempt(attempts, BrokerUnavailable("away\nfor now"))
        pauses.append(attempts.pause_s)
    assert pauses == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert [record.getMessage() for record in caplog.records] == ["the outbox waits: away for now"]
    assert attempts.failure == "away for now"
    attempt(attempts, None)
    assert (attempts.failure, attempts.pause_s) == (None, 0.2)
    attempts.stands_by()
    assert (attempts.failure, attempts.pause_s) == (None, 1.0)


def test_an_error_of_ours_is_logged_whole_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts("the mirror")
    attempt(attempts, ZeroDivisionError())
    assert attempts.failure == "ZeroDivisionError: see the log"
    assert caplog.records[0].exc_info is not None

"""Values that may be a moment old."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_ops.control_plane.ttl_cache import Remembered


@dataclass
class Store:
    """Answers with the number of the question, after so many seconds."""

    takes_s: float
    now_s: float = 0.0
    asked: int = 0

    def ask(self) -> int:
        self.asked += 1
        self.now_s += self.takes_s
        return self.asked

    def clock_s(self) -> float:
        return self.now_s


@pytest.mark.parametrize("takes_s", [0.0, 5.0])
def test_an_answer_is_kept_for_its_time_however_long_it_took(takes_s: float) -> None:
    store = Store(takes_s)
    remembered = Remembered(store.ask, 1.0, store.clock_s)
    assert [remembered(), remembered()] == [1, 1]
    store.now_s += 0.9
    assert remembered() == 1
    store.now_s += 0.2
    assert remembered() == 2


def test_an_answer_that_is_forgotten_is_asked_for_again() -> None:
    store = Store(0.0)
    remembered = Remembered(store.ask, 1.0, store.clock_s)
    remembered()
    remembered.forget()
    assert remembered() == 2


def test_an_error_is_not_kept() -> None:
    answers = iter([Unavailable("away"), 7])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    remembered = Remembered(ask, 1.0)
    with pytest.raises(Unavailable):
        remembered()
    assert remembered() == 7

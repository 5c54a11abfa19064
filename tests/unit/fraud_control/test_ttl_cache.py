"""The TTL cache: its values may be slightly outdated."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fraud_control.domain.errors import Unavailable
from fraud_control.ttl_cache import CachedByKey, CachedValue


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
    remembered = CachedValue(store.ask, 1.0, store.clock_s)
    assert [remembered(), remembered()] == [1, 1]
    store.now_s += 0.9
    assert remembered() == 1
    store.now_s += 0.2
    assert remembered() == 2


def test_a_dropped_value_is_read_again() -> None:
    store = Store(0.0)
    remembered = CachedValue(store.ask, 1.0, store.clock_s)
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

    remembered = CachedValue(ask, 1.0)
    with pytest.raises(Unavailable):
        remembered()
    assert remembered() == 7


def test_values_are_cached_by_key_for_their_time() -> None:
    store, asked = Store(5.0), list[str]()

    def read(key: str) -> int:
        asked.append(key)
        return store.ask()

    cache = CachedByKey(read, 1.0, 10, store.clock_s)
    assert [cache.get(key) for key in "ab"] == [1, 2]
    assert cache.get("b") == 2
    store.now_s += 1.1
    assert cache.get("b") == 3
    assert asked == ["a", "b", "b"]


def test_a_full_cache_drops_the_oldest_key() -> None:
    asked: list[str] = []
    cache = CachedByKey(asked.append, 60.0, 2)
    for key in "abcca":
        cache.get(key)
    assert asked == ["a", "b", "c", "a"]


def test_a_value_that_was_read_before_a_change_is_not_cached_after_it() -> None:
    roles = iter(["viewer", "author"])

    def read(user: str) -> str:
        role = next(roles)
        if role == "viewer":
            cache.forget()  # another thread changes the role now
        return role

    cache = CachedByKey(read, 60.0, 10)
    assert [cache.get("ann"), cache.get("ann"), cache.get("ann")] == ["viewer", "author", "author"]

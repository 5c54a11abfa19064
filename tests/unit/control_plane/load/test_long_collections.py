"""Survivors of long garbage collections are frozen, so that later collections are short."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from fraud_ops.control_plane.web.load.garbage import LongCollections


class Clock:
    """A clock that moves at each reading."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def frozen_by(step_s: float, generation: int = 2, count: int = 1) -> int:
    """The number of frozen objects after collections that took `step_s`."""
    watching = LongCollections(Clock(step_s))
    watching.install()
    try:
        for _ in range(count):
            gc.collect(generation)
    finally:
        watching.remove()
    return gc.get_freeze_count()


def test_the_survivors_of_a_long_full_collection_are_frozen() -> None:
    assert frozen_by(1.0) > 1_000


@pytest.mark.parametrize(("step_s", "generation"), [(0.001, 2), (1.0, 1)])
def test_short_and_partial_collections_freeze_nothing(step_s: float, generation: int) -> None:
    assert frozen_by(step_s, generation) == 0


def test_only_a_few_collections_freeze() -> None:
    watching = LongCollections(Clock(1.0))
    watching.install()
    try:
        for _ in range(20):
            gc.collect()
        gc.unfreeze()
        gc.collect()
    finally:
        watching.remove()
    assert gc.get_freeze_count() == 0

"""The loop of batches: one batch follows the other, also after an outage, until a stop or an error."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fraud_rules.errors import BrokerUnavailable, FraudError, StateDamaged
from fraud_rules.model.lost_records import Offsets
from fraud_rules.stream import batch_loop
from fraud_rules.stream.batch_loop import BatchLoop, PlannedBatch

START = {"transactions": {"0": 0}}
ENDED_S = 180.0
NEVER_S = 3_600.0


class Inputs:
    """A topic that grows by 5 records at each look."""

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        if self.outages:
            self.outages -= 1
            raise BrokerUnavailable("no broker answers")
        return {"transactions": {"0": starts["transactions"]["0"] + 5}}


class Unannounced:
    """No record announces itself."""

    def wait(self, starts: Offsets, timeout_s: float) -> bool:
        threading.Event().wait(timeout_s)
        return False

    def pause(self) -> None:
        pass


def ran(inputs: Inputs, run: Callable[[PlannedBatch], bool]) -> BatchLoop:
    loop = BatchLoop(7, START, inputs, Unannounced(), run, 1_000, NEVER_S)
    loop.start()
    assert loop.wait(ENDED_S)
    return loop


def first_of(batches_run: list[PlannedBatch], count: int) -> Callable[[PlannedBatch], bool]:
    def run(batch: PlannedBatch) -> bool:
        batches_run.append(batch)
        return len(batches_run) < count

    return run


def test_each_batch_starts_where_the_last_one_ended() -> None:
    seen: list[PlannedBatch] = []
    assert ran(Inputs(), first_of(seen, 2)).error is None
    ends = [{"transactions": {"0": 5}}, {"transactions": {"0": 10}}]
    assert seen == [PlannedBatch(7, START, ends[0]), PlannedBatch(8, ends[0], ends[1])]


def test_a_failed_batch_ends_the_loop() -> None:
    seen: list[PlannedBatch] = []

    def fail(batch: PlannedBatch) -> bool:
        seen.append(batch)
        raise StateDamaged("a chunk is gone")

    assert isinstance(ran(Inputs(), fail).error, FraudError)
    assert [batch.batch_id for batch in seen] == [7]


def test_a_stop_ends_the_loop_after_the_current_batch() -> None:
    seen: list[PlannedBatch] = []

    def run(batch: PlannedBatch) -> bool:
        seen.append(batch)
        loop.stop()
        return True

    loop = BatchLoop(7, START, Inputs(), Unannounced(), run, 1_000, NEVER_S)
    loop.start()
    assert loop.wait(ENDED_S)
    assert (loop.error, [batch.batch_id for batch in seen]) == (None, [7])


def test_an_outage_delays_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_OUTAGE_POLL_S", 0.01)
    seen: list[PlannedBatch] = []
    assert ran(Inputs(outages=3), first_of(seen, 1)).error is None
    assert [batch.batch_id for batch in seen] == [7]


def test_a_long_outage_ends_the_loop_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_OUTAGE_POLL_S", 0.01)
    monkeypatch.setattr(batch_loop, "_PATIENCE_S", 0.05)
    loop = ran(Inputs(outages=10**6), first_of([], 1))
    assert isinstance(loop.error, BrokerUnavailable)


class Backlog:
    """A topic with `waiting` records, and with many more as soon as they are read."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        start = starts["transactions"]["0"]
        end = min(self.waiting, start + most)
        if end == self.waiting:
            self.waiting += 1_000
        return {"transactions": {"0": end}}


def test_a_batch_that_ended_several_starts_is_repeated_smaller_until_the_loop_has_caught_up() -> None:
    seen: list[PlannedBatch] = []
    loop = BatchLoop(7, START, Backlog(30), Unannounced(), first_of(seen, 4), 50, NEVER_S, halvings=2)
    loop.start()
    assert loop.wait(ENDED_S)
    assert [batch.records for batch in seen] == [12, 12, 6, 50]


@pytest.mark.parametrize(("halvings", "size"), [(0, 30), (1, 25), (5, 1), (99, 1)])
def test_a_batch_is_never_smaller_than_one_record(halvings: int, size: int) -> None:
    seen: list[PlannedBatch] = []
    loop = BatchLoop(7, START, Backlog(30), Unannounced(), first_of(seen, 1), 50, NEVER_S, halvings)
    loop.start()
    assert loop.wait(ENDED_S)
    assert [batch.records for batch in seen] == [size]


class Idle:
    """Topics without new records."""

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        return None


def test_an_idle_detector_runs_batches_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones run at once, because those of a new JVM are slow."""
    monkeypatch.setattr(batch_loop, "_WARM_BATCHES", 2)
    seen: list[PlannedBatch] = []
    loop = BatchLoop(7, START, Idle(), Unannounced(), first_of(seen, 5), 50, tick_s=0.01)
    loop.start()
    assert loop.wait(ENDED_S)
    assert seen == [PlannedBatch(7 + number, START, START) for number in range(5)]


def test_a_loop_that_is_woken_runs_a_batch_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_WARM_BATCHES", 0)
    seen: list[PlannedBatch] = []
    first = threading.Event()

    def run(batch: PlannedBatch) -> bool:
        seen.append(batch)
        first.set()
        return len(seen) < 2

    loop = BatchLoop(7, START, Idle(), Unannounced(), run, 50, NEVER_S)
    loop.start()
    assert first.wait(ENDED_S), "the first batch does not wait"
    loop.wake()
    assert loop.wait(ENDED_S)
    assert [batch.batch_id for batch in seen] == [7, 8]

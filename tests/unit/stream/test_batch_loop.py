"""The loop of batches: it repeats a planned batch, survives an outage, and ends after a stop or an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fraud_rules.errors import BrokerUnavailable, FraudError, StateDamaged
from fraud_rules.model.lost_records import Offsets
from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream import batch_loop
from fraud_rules.stream.batch_loop import BatchLoop
from fraud_rules.stream.plan_log import PlanLog, PlannedBatch

START = {"transactions": {"0": 0}}
ENDED_S = 30.0


class Inputs:
    """A topic that grows by 5 records at each look."""

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        if self.outages:
            self.outages -= 1
            raise BrokerUnavailable("no broker answers")
        return {"transactions": {"0": starts["transactions"]["0"] + 5}}


@pytest.fixture
def plan(tmp_path: Path) -> PlanLog:
    return PlanLog.open(DiskFolder(tmp_path / "checkpoint"), START)


def ran(plan: PlanLog, inputs: Inputs, run: Callable[[PlannedBatch], bool]) -> BatchLoop:
    loop = BatchLoop(plan, inputs, run, 1_000)
    loop.start()
    assert loop.wait(ENDED_S)
    return loop


def first_of(batches_run: list[PlannedBatch], count: int) -> Callable[[PlannedBatch], bool]:
    def run(batch: PlannedBatch) -> bool:
        batches_run.append(batch)
        return len(batches_run) < count

    return run


def test_a_planned_batch_comes_first(plan: PlanLog) -> None:
    planned = plan.plan({"transactions": {"0": 3}})
    seen: list[PlannedBatch] = []
    loop = ran(plan, Inputs(), first_of(seen, 2))
    assert loop.error is None
    assert seen == [planned, PlannedBatch(1, planned.ends, {"transactions": {"0": 8}})]
    assert plan.unfinished() is None


def test_a_failed_batch_stays_planned(plan: PlanLog) -> None:
    def fail(batch: PlannedBatch) -> bool:
        raise StateDamaged("a chunk is gone")

    loop = ran(plan, Inputs(), fail)
    assert isinstance(loop.error, FraudError)
    assert plan.unfinished() == PlannedBatch(0, START, {"transactions": {"0": 5}})


def test_a_stop_ends_the_loop_after_the_current_batch(plan: PlanLog) -> None:
    def run(batch: PlannedBatch) -> bool:
        loop.stop()
        return True

    loop = BatchLoop(plan, Inputs(), run, 1_000)
    loop.start()
    assert loop.wait(ENDED_S)
    assert (loop.error, plan.unfinished(), plan.ends) == (None, None, {"transactions": {"0": 5}})


def test_an_outage_delays_the_next_batch(plan: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_OUTAGE_POLL_S", 0.01)
    seen: list[PlannedBatch] = []
    assert ran(plan, Inputs(outages=3), first_of(seen, 1)).error is None
    assert [batch.batch_id for batch in seen] == [0]


def test_a_long_outage_ends_the_loop_with_its_name(plan: PlanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_OUTAGE_POLL_S", 0.01)
    monkeypatch.setattr(batch_loop, "_PATIENCE_S", 0.05)
    loop = ran(plan, Inputs(outages=10**6), first_of([], 1))
    assert isinstance(loop.error, BrokerUnavailable)
    assert plan.unfinished() is None

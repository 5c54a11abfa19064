"""The plan of a checkpoint: a planned batch is repeated, a finished one is not, and old files disappear."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream.checkpoint import known_query
from fraud_rules.stream.plan_log import PlanLog, PlannedBatch

START = {"transactions": {"0": 3, "1": 0}}


@pytest.fixture
def folder(tmp_path: Path) -> DiskFolder:
    return DiskFolder(tmp_path / "checkpoint")


def ends(last: int) -> dict[str, dict[str, int]]:
    return {"transactions": {"0": last, "1": 7}}


def test_the_first_batch_starts_at_the_given_offsets(folder: DiskFolder) -> None:
    assert PlanLog.is_new(folder)
    plan = PlanLog.open(folder, START)
    assert plan.unfinished() is None
    assert plan.plan(ends(9)) == PlannedBatch(0, START, ends(9))
    assert not PlanLog.is_new(folder)


def test_a_restart_repeats_the_planned_batch(folder: DiskFolder) -> None:
    plan = PlanLog.open(folder, START)
    plan.finish(plan.plan(ends(9)))
    planned = plan.plan(ends(12))
    again = PlanLog.open(folder)
    assert again.unfinished() == planned == PlannedBatch(1, ends(9), ends(12))
    assert again.query_id == plan.query_id == known_query(folder)


def test_two_processes_run_the_batch_that_the_first_one_has_planned(folder: DiskFolder) -> None:
    """A suspended process plans a batch after its successor has opened the folder, until it is fenced."""
    resumed, successor = PlanLog.open(folder, START), PlanLog.open(folder, START)
    planned = resumed.plan(ends(10))
    assert successor.plan(ends(25)) == planned == PlannedBatch(0, START, ends(10))


def test_a_restart_before_the_first_batch_keeps_its_start(folder: DiskFolder) -> None:
    PlanLog.open(folder, START)
    assert PlanLog.open(folder).ends == START


def test_a_finished_batch_is_not_repeated(folder: DiskFolder) -> None:
    plan = PlanLog.open(folder, START)
    plan.finish(plan.plan(ends(9)))
    again = PlanLog.open(folder)
    assert again.unfinished() is None
    assert again.plan(ends(10)) == PlannedBatch(1, ends(9), ends(10))


def test_only_the_newest_files_stay(folder: DiskFolder) -> None:
    plan = PlanLog.open(folder, START)
    for last in range(9, 139):
        plan.finish(plan.plan(ends(last)))
    for log in ("offsets", "commits"):
        assert sorted(map(int, folder.names(log))) == list(range(30, 130))


def test_files_of_an_earlier_release_disappear_with_their_checksums(folder: DiskFolder) -> None:
    """Spark keeps more files than this product, with a checksum beside each."""
    plan = PlanLog.open(folder, START)
    for last in range(9, 109):
        plan.finish(plan.plan(ends(last)))
    for log in ("offsets", "commits"):
        folder.create(f"{log}/100", folder.read(f"{log}/99") or b"")
        folder.create(f"{log}/.0.crc", b"crc")
    PlanLog.open(folder)
    for log in ("offsets", "commits"):
        names = folder.names(log)
        assert "0" not in names
        assert ".0.crc" not in names
        assert "100" in names

"""The work of a detector: the driver's reports, the tasks' files, and their reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import AttemptStatus
from fraud_rules.deploy.work import WORK_VARIABLE, Work, WorkPhase
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.channel import ChannelAddress
from fraud_rules.stream.driver.channel_server import ChannelServer, serve_channel
from fraud_rules.stream.work import BatchWatch, TasksProgress, WorkReport, default_report, work_file, work_lines
from fraud_rules.stream.worker.driver_link import TaskWork
from tests.support.records.payments import payment_record
from tests.support.rules import sum_rule
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work(WorkPhase.SESSION, 1, 1), "starting Spark"),
        (
            Work(WorkPhase.STATE, 1, 2, 1_200_000, 4_000_000, "events", 7),
            "restoring state (batch 7): 1,200,000 of 4,000,000 events",
        ),
        (Work(WorkPhase.RECOMPUTE, 1, 2, 5_000, None, "transactions"), "recomputing state: 5,000 transactions"),
        (
            Work(WorkPhase.RECOMPUTE, 0, 20_000, 2_000_000, 10_000_000, "transactions"),
            "recomputing state: 2,000,000 of 10,000,000 transactions, 100,000/s, 80 s left",
        ),
    ],
)
def test_work_is_formatted_for_people(work: Work, text: str) -> None:
    assert str(work) == text


def test_every_phase_has_words() -> None:
    assert all(str(Work(phase, 0, 0)) for phase in WorkPhase)


def test_a_status_of_an_agent_that_reports_no_work_is_readable() -> None:
    before = {"detector": "d", "attemptId": "a", "epoch": 0, "phase": "RUNNING", "atMs": 1, "agent": "g", "host": "h"}
    assert msgspec.json.decode(json.dumps(before), type=AttemptStatus).work is None


def read(path: Path) -> Work | None:
    return msgspec.json.decode(path.read_bytes(), type=Work) if path.exists() else None


def test_a_report_goes_to_the_file_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "work.json"
    monkeypatch.setenv(WORK_VARIABLE, str(file))
    report = default_report()
    report.begin(WorkPhase.RECOMPUTE, "transactions", 100)
    begun = read(file)
    assert begun is not None
    assert (begun.phase, begun.done, begun.total, begun.unit) == (WorkPhase.RECOMPUTE, 0, 100, "transactions")
    report.begin(WorkPhase.QUERY)
    assert (found := read(file)) is not None
    assert found.phase is WorkPhase.QUERY
    report.end()
    assert read(file) is None


def test_progress_is_written_at_most_once_a_second() -> None:
    written: list[Work | None] = []
    report = WorkReport(written.append)
    report.begin(WorkPhase.RECOMPUTE, "transactions", 10_000)
    for done in range(10_000):
        report.reached(done)
    assert len(written) < 1_000, "ten thousand steps take far less than a thousand seconds"


def test_a_report_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    report = WorkReport(work_file(tmp_path / "missing" / "work.json"))
    report.begin(WorkPhase.SESSION)
    report.end()


def test_a_terminal_gets_a_line_only_when_time_has_passed() -> None:
    lines: list[str] = []
    for every_s in (3_600.0, 0.0):
        WorkReport(work_lines(lines.append, every_s)).begin(WorkPhase.SESSION)
    assert lines == ["starting Spark"]


@contextmanager
def watching(progress: list[TasksProgress], written: list[Work | None]) -> Iterator[BatchWatch]:
    watch = BatchWatch(WorkReport(written.append), lambda batch_id: progress[-1], lambda: 500, key_groups=8)
    watch.start()
    yield watch
    watch.stop()


def test_a_long_batch_reports_what_its_tasks_reach() -> None:
    progress, written = [TasksProgress()], list[Work | None]()

    def newest() -> Work | None:
        return written[-1] if written else None

    def shows(phase: WorkPhase, done: int) -> Work | None:
        work = newest()
        return work if work is not None and (work.phase, work.done) == (phase, done) else None

    with watching(progress, written) as watch:
        watch.batch_started(3)
        began = until(lambda: shows(WorkPhase.BATCH, 0), "the batch is reported")
        assert (began.total, began.batch_id, began.changed_ms) == (8, 3, began.since_ms)
        progress.append(TasksProgress(restored=200, restores=True))
        restoring = until(lambda: shows(WorkPhase.STATE, 200), "the restored events are reported")
        assert (restoring.total, restoring.unit) == (500, "events")
        assert restoring.changed_ms > began.changed_ms
        progress.append(TasksProgress(restored=500, rows=10, key_groups=1))
        done = until(lambda: shows(WorkPhase.BATCH, 1), "the key groups are reported")
        progress.append(TasksProgress(restored=500, rows=20, key_groups=1))
        until(lambda: (work := newest()) and work.changed_ms > done.changed_ms, "rows alone count as progress")
        watch.batch_ended()
    assert written[-1] is None


def test_a_short_batch_writes_nothing() -> None:
    written: list[Work | None] = []
    with watching([TasksProgress()], written) as watch:
        for batch_id in range(100):
            watch.batch_started(batch_id)
            watch.batch_ended()
    assert written == []


@pytest.fixture
def channel() -> Iterator[ChannelServer]:
    with serve_channel("127.0.0.1", "127.0.0.1") as server:
        yield server


def test_tasks_report_once_they_take_long(channel: ChannelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = TaskWork(channel.address, 4)
    quick.restored(10)
    assert channel.progress(4) == TasksProgress()
    monkeypatch.setattr("fraud_rules.stream.worker.driver_link._QUIET_S", 0.0)
    task = TaskWork(channel.address, 4)
    task.restored(10)
    task.restored(20)
    assert channel.progress(4) == TasksProgress(restored=30, restores=True)
    task.evaluated(5)
    task.key_group_done()
    assert channel.progress(4) == TasksProgress(restored=30, rows=5, key_groups=1)
    assert channel.progress(5) == TasksProgress(), "reports of another batch do not count"
    channel.batch_ended()
    assert channel.progress(4) == TasksProgress()


def test_a_repeated_task_counts_as_progress_at_once(channel: ChannelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host is lost perhaps, and the other host needs time for its first row."""
    repeated = SimpleNamespace(partitionId=lambda: 3, attemptNumber=lambda: 1)
    monkeypatch.setattr("fraud_rules.stream.worker.driver_link.TaskContext", SimpleNamespace(get=lambda: repeated))
    TaskWork(channel.address, 4)
    assert channel.progress(4) == TasksProgress(repeated=1)


class Counted:
    """A `TaskProgress` that counts."""

    def __init__(self) -> None:
        self.restored_events = 0
        self.rows: list[int] = []

    def fetched(self, size_bytes: int) -> None:
        pass

    def restored(self, events: int) -> None:
        self.restored_events += events

    def evaluated(self, rows: int) -> None:
        self.rows.append(rows)


def test_an_engine_reports_while_it_evaluates_and_while_it_restores() -> None:
    schema, settings = TransactionSchema.load(Project.find().config / "schema.yaml"), DetectorSettings(key_groups=1)
    rule = sum_rule(limit=10, windowMinutes=60)
    timeline = RuleTimeline([read_entry(0, 1, json.dumps(rule).encode(), schema, settings.limits)], 1)
    n = 5_000
    values: list[bytes | None] = [payment_record(i, 1_000 + i, payeeId=i % 9, ingestionTimestamp=1) for i in range(n)]
    zeros, places = np.zeros(n, dtype=np.int32), np.arange(n, dtype=np.int64)
    decoded = decode_transactions(
        RawTransactions.of(values, zeros, places, places + 1_000), schema, RecordLimits(event_time_floor_ms=0)
    )
    blobs, log = fan_out(decoded.batch, timeline, schema, 1), MemoryStateLog()
    first, second = Counted(), Counted()
    for batch_id, (blob, counted) in enumerate([(blobs[0], first), (EMPTY_BLOB, second)]):
        engine = KeyGroupEngine(0, schema, settings, log, HeapViews(), progress=counted)
        engine.process([blob], timeline, batch_id, 0)
    assert (sum(first.rows), first.restored_events) == (n, 0)
    assert len(first.rows) > 1, "the kernel returns now and then, however large the batch is"
    assert (second.rows, second.restored_events) == ([], n)


def test_a_driver_that_does_not_answer_ends_no_task(
    channel: ChannelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fraud_rules.stream.worker.driver_link._QUIET_S", 0.0)
    nowhere = ChannelAddress("grpc+tls://127.0.0.1:1", "token", channel.address.certificate)
    TaskWork(nowhere, 0).evaluated(1)
    assert "the driver does not receive a report of progress" in caplog.text

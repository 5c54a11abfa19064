"""The agent's steps in turn, with a launcher that starts no process, and without a broker."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from fraud_ops.verdicts.attempt_end import assess_end
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.settings import AgentSettings
from fraud_rules.deploy.agent.agent import Agent
from fraud_rules.deploy.agent.home import AttemptEnd, AttemptFolder, AttemptOrder
from fraud_rules.deploy.agent.watch import AgentIdentity
from fraud_rules.deploy.attempt import AgentStatus, Attempt, AttemptPhase, AttemptStatus, DeploymentReports
from fraud_rules.deploy.intent import SUPERVISOR, Intent, IntentLog, IntentRecord, read_intents
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.deploy.work import Work, WorkPhase
from fraud_rules.errors import Fenced
from fraud_rules.logs.detector_status import BatchProgress
from tests.support.deployments import KEYS, RELEASE, drain, records_of, run
from tests.support.waiting import until

ME = AgentIdentity("cards", "agent-1", "host", "c0de")
LIMITS = AgentSettings(drain_ms=1_000, check_ms=60_000, heartbeat_ms=100)


@dataclass
class FakeAttempt:
    """An attempt without processes. If `obeys` is true, a drain ends it."""

    folder: AttemptFolder
    order: AttemptOrder
    obeys: bool = True
    stopped: bool = False
    ended: AttemptEnd | None = None
    asked: int = 0
    used_s: float = 0.0
    released_ms: int | None = None

    def end(self) -> AttemptEnd | None:
        return self.ended

    def drain(self) -> None:
        self.asked += 1
        if self.obeys:
            self.ended = AttemptEnd(1, 0)

    def cpu_s(self) -> float:
        return self.used_s

    def is_stopped(self) -> bool:
        return self.stopped

    def kill(self) -> None:
        self.ended = AttemptEnd(1, -9)

    def proceed(self, now_ms: int) -> FakeAttempt:
        self.released_ms = now_ms
        return self


@dataclass
class FakeCheck:
    """A check of a release. With `code` None it never ends."""

    code: int | None = 0
    text: str = ""
    cancelled: bool = False
    used_s: float = 0.0

    def cpu_s(self) -> float:
        return self.used_s

    def poll(self) -> int | None:
        return self.code

    def output(self) -> str:
        return self.text

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class FakeLauncher:
    """`check_with` is the result of a check, `ends_held` the end of a held attempt; `gets_ready`: it becomes ready."""

    home: Path
    check_with: tuple[int | None, str] = (0, "")
    obeys: bool = True
    gets_ready: bool = True
    ends_held: AttemptEnd | None = None
    checks: int = 0
    check_given: FakeCheck = field(default_factory=FakeCheck)
    left: FakeAttempt | None = None
    disk: OSError | None = None
    started: list[FakeAttempt] = field(default_factory=list)

    def validate(self, record: IntentRecord) -> None:
        pass

    def check(self, record: IntentRecord) -> FakeCheck:
        if self.disk is not None:
            raise self.disk
        self.checks += 1
        self.check_given = FakeCheck(*self.check_with)
        return self.check_given

    def start(self, record: IntentRecord, now_ms: int, *, held: bool = False) -> FakeAttempt:
        folder = AttemptFolder(self.home / record.intent.attempt_id)
        folder.path.mkdir()
        if held and self.gets_ready:
            folder.mark("ready")
        attempt = FakeAttempt(folder, AttemptOrder(record.epoch, record.intent, now_ms, [], {}, held), self.obeys)
        attempt.ended = self.ends_held if held else None
        self.started.append(attempt)
        return attempt

    def newest(self) -> FakeAttempt | None:
        return self.left


class Site:
    """An agent with its reports and an intent log."""

    def __init__(self, home: Path) -> None:
        self.launcher = FakeLauncher(home)
        self.phases: list[tuple[str, AttemptPhase]] = []
        self.statuses: dict[str, AttemptStatus] = {}
        self.beats: list[AgentStatus] = []
        self.fenced = False
        self.now_ms = 0
        self.clock_ahead_ms = 0
        self._intents: list[Intent] = []
        self.keys = KEYS
        self.agent = Agent(ME, self.launcher, self._write, LIMITS, KEYS.require, lambda: self.now_ms)

    @property
    def intents(self) -> IntentLog:
        return read_intents("cards", records_of(self._intents, keys=self.keys))

    def decide(self, intent: Intent) -> None:
        self._intents.append(intent)

    def step(self, ms: int = 10) -> None:
        self.now_ms += ms
        self.agent.step(self.intents, self.now_ms + self.clock_ahead_ms)

    def until_phase(self, attempt_id: str, phase: AttemptPhase) -> None:
        def reached() -> bool:
            self.step()
            return (attempt_id, phase) in self.phases

        until(reached, f"{attempt_id} is {phase}")

    def _write(self, status: AgentStatus, attempts: list[AttemptStatus]) -> None:
        if self.fenced:
            raise Fenced("another agent")
        self.beats.append(status)
        for each in attempts:
            self.phases.append((each.attempt_id, each.phase))
            self.statuses[each.attempt_id] = each


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def running(site: Site) -> Site:
    """A site whose first attempt, `a`, runs."""
    site.decide(run(-1, "a"))
    site.until_phase("a", AttemptPhase.STARTING)
    site.launcher.started[0].folder.mark("running")
    site.until_phase("a", AttemptPhase.RUNNING)
    return site


def test_an_intent_is_executed_and_reported(running: Site) -> None:
    assert [phase for _, phase in running.phases][-2:] == [AttemptPhase.STARTING, AttemptPhase.RUNNING]
    assert running.beats[-1].executed_epoch == 0


def test_without_an_intent_the_agent_writes_only_heartbeats(site: Site) -> None:
    for _ in range(30):
        site.step()
    assert 2 <= len(site.beats) <= 4
    assert site.beats[-1].current is None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_clock_delays_no_heartbeat_and_shortens_no_limit(hours: int, running: Site) -> None:
    running.launcher.check_with = (None, "")
    running.decide(run(0, "b"))
    running.step()
    before = len(running.beats)
    running.clock_ahead_ms = hours * 3_600_000
    for _ in range(30):
        running.step()
    assert 2 <= len(running.beats) - before <= 5
    assert running.statuses["b"].phase is AttemptPhase.ACCEPTED
    running.step(LIMITS.check_ms)
    assert running.statuses["b"].phase is AttemptPhase.REFUSED


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_clock_changes_no_limit_of_a_drain(hours: int, running: Site) -> None:
    attempt = running.launcher.started[0]
    attempt.obeys = False
    running.decide(drain(0, "b"))
    running.step()
    running.clock_ahead_ms = hours * 3_600_000
    running.step(LIMITS.drain_ms - 10)
    assert attempt.end() is None
    running.step(20)
    assert attempt.end() is not None


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        ((9, "warned\ndetector: the checkpoint is foreign\n"), "CheckpointForeign", "the checkpoint is foreign"),
        ((1, "Traceback\nImportError: no\n"), "FraudError", "ImportError: no"),
        ((-11, ""), "ReleaseInvalid", "no output"),
    ],
)
def test_an_invalid_release_is_refused_and_the_old_one_runs_on(
    running: Site, check: tuple[int, str], name: str, message: str
) -> None:
    running.launcher.check_with = check
    running.decide(run(0, "b"))
    running.until_phase("b", AttemptPhase.REFUSED)
    assert (running.statuses["b"].error_name, running.statuses["b"].message) == (name, message)
    assert running.launcher.started[0].asked == 0
    assert running.statuses["a"].phase is AttemptPhase.RUNNING
    assert running.beats[-1].executed_epoch == 1


def test_a_start_on_a_full_disk_is_refused_by_name(site: Site) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    site.launcher.disk = full
    site.decide(run(-1, "a"))
    site.until_phase("a", AttemptPhase.REFUSED)
    assert site.statuses["a"].error_name == "StorageFull"
    assert assess_end(site.statuses["a"]).health is Health.DISK_FULL
    site.launcher.disk = None
    site.decide(run(0, "b"))
    site.until_phase("b", AttemptPhase.STARTING)


def test_a_check_without_progress_is_given_up_and_the_next_gets_twice_the_time(running: Site) -> None:
    running.launcher.check_with = (None, "warned\ndetector: asks the broker\n")
    for epoch, (attempt_id, limit_ms) in enumerate([("b", LIMITS.check_ms), ("c", 2 * LIMITS.check_ms)]):
        running.decide(run(epoch, attempt_id))
        running.step()
        running.step(limit_ms)
        assert attempt_id not in running.statuses or running.statuses[attempt_id].phase is AttemptPhase.ACCEPTED
        running.step(1)
        status = running.statuses[attempt_id]
        assert (status.phase, status.error_name) == (AttemptPhase.REFUSED, "Stalled")
        assert status.message is not None
        assert "checking the release: given up after" in status.message
        assert status.message.endswith("its last output: asks the broker")


def test_a_slow_check_that_uses_the_cpu_continues(running: Site) -> None:
    running.launcher.check_with = (None, "")
    running.decide(run(0, "b"))
    running.step()
    check = running.launcher.check_given
    for minute in range(10):
        check.used_s = 6.0 * minute
        running.step(60_000)
    status = running.statuses["b"]
    assert (status.phase, status.work.phase) == (AttemptPhase.ACCEPTED, WorkPhase.CHECK)  # type: ignore[union-attr]
    check.code = 0
    running.until_phase("b", AttemptPhase.STARTING)


def test_a_start_reports_its_work_and_cpu_time_counts_where_it_counts_nothing(running: Site) -> None:
    (attempt,) = running.launcher.started

    def seen(work: Work, used_s: float) -> Work | None:
        attempt.folder.work.write_bytes(msgspec.json.encode(work))
        attempt.used_s = used_s
        running.step(LIMITS.heartbeat_ms + 5_000)
        return running.statuses["a"].work

    session = Work(WorkPhase.SESSION, 1, 1)
    busy = [seen(session, used_s) for used_s in (9.0, 18.0, 18.1, 18.2)]
    moved = [work.changed_ms for work in busy if work is not None]
    assert moved[0] < moved[1] == moved[2] == moved[3], "a hundredth of a core is no progress"
    counted = Work(WorkPhase.STATE, 5, 7, 100, None, "events")
    assert seen(counted, 90.0) == counted


def test_an_attempt_that_a_supervisor_replaces_as_stalled_has_failed(running: Site) -> None:
    (attempt,) = running.launcher.started
    attempt.obeys = False
    work = Work(WorkPhase.BATCH, 5, 7, 3, 8, "key groups")
    attempt.folder.work.write_bytes(msgspec.json.encode(work))
    repair = msgspec.structs.replace(run(0, "b"), requested_by=SUPERVISOR, reason="STALLED: evaluating: 3 of 8")
    running.decide(repair)
    running.step()
    running.step(LIMITS.drain_ms + 1)
    attempt.folder.work.unlink()
    running.until_phase("b", AttemptPhase.STARTING)
    status = running.statuses["a"]
    assert (status.phase, status.error_name, status.message, status.work) == (
        AttemptPhase.FAILED, "Stalled", "STALLED: evaluating: 3 of 8", work,
    )  # fmt: skip
    assert running.launcher.checks == 1, "the release was checked when it was started first"
    assert not running.launcher.started[1].order.held


def test_an_attempt_that_a_user_replaces_has_not_failed(running: Site) -> None:
    running.decide(msgspec.structs.replace(run(0, "b"), requested_by="restart by ann"))
    running.until_phase("b", AttemptPhase.STARTING)
    assert running.statuses["a"].phase is AttemptPhase.STOPPED


def test_a_valid_release_replaces_the_running_attempt(running: Site) -> None:
    running.decide(run(0, "b"))
    running.until_phase("b", AttemptPhase.STARTING)
    assert running.statuses["a"].phase is AttemptPhase.STOPPED
    assert [attempt.asked for attempt in running.launcher.started] == [1, 0]


def test_the_running_attempt_ends_only_once_the_held_driver_is_ready(running: Site) -> None:
    running.launcher.gets_ready = False
    running.decide(run(0, "b"))
    until(lambda: running.step() or len(running.launcher.started) == 2, "a successor makes ready")
    first, second = running.launcher.started
    running.step()
    assert second.order.held
    assert (first.asked, second.released_ms, running.statuses["b"].phase) == (0, None, AttemptPhase.ACCEPTED)
    second.folder.mark("ready")
    running.until_phase("b", AttemptPhase.STARTING)
    assert (first.asked, second.released_ms) == (1, running.now_ms)
    assert len(running.launcher.started) == 2


def test_a_held_driver_that_ends_before_it_is_ready_is_refused(running: Site) -> None:
    running.launcher.gets_ready, running.launcher.ends_held = False, AttemptEnd(1, 17, "no master answers")
    running.decide(run(0, "b"))
    running.until_phase("b", AttemptPhase.REFUSED)
    status = running.statuses["b"]
    assert (status.error_name, status.message) == ("MasterUnavailable", "no master answers")
    assert running.launcher.started[0].asked == 0


@pytest.mark.parametrize("newer", [False, True])
def test_a_held_driver_that_does_not_become_ready_is_ended(running: Site, *, newer: bool) -> None:
    running.launcher.gets_ready = False
    running.decide(run(0, "b"))
    until(lambda: running.step() or len(running.launcher.started) == 2, "a successor makes ready")
    if newer:
        running.decide(drain(1, "d"))
    running.step(0 if newer else LIMITS.check_ms + 1)
    assert running.launcher.started[1].ended == AttemptEnd(1, -9)
    assert running.statuses["b"].phase is (AttemptPhase.SUPERSEDED if newer else AttemptPhase.REFUSED)
    assert running.launcher.started[0].asked == int(newer)


def test_a_dead_attempt_is_restarted_without_another_check(running: Site) -> None:
    running.launcher.started[0].ended = AttemptEnd(1, -9)
    running.step()
    running.launcher.check_with = (None, "")
    running.decide(run(0, "b"))
    running.until_phase("b", AttemptPhase.STARTING)
    assert (running.launcher.checks, running.launcher.started[1].order.held) == (1, False)


def test_a_changed_release_is_checked_even_without_a_running_attempt(running: Site) -> None:
    running.launcher.started[0].ended = AttemptEnd(1, -9)
    running.launcher.check_with = (9, "detector: no\n")
    running.decide(run(0, "b", release=msgspec.structs.replace(RELEASE, settings="detector: cards\ntick_ms: 500\n")))
    running.until_phase("b", AttemptPhase.REFUSED)


def test_an_attempt_that_does_not_end_is_killed(running: Site) -> None:
    first = running.launcher.started[0]
    first.obeys = False
    running.decide(drain(0, "d"))
    running.until_phase("d", AttemptPhase.DRAINING)
    assert first.ended is None
    running.step(LIMITS.drain_ms + 1)
    assert first.ended is not None
    assert running.statuses["d"].phase is AttemptPhase.STOPPED
    assert (running.statuses["a"].phase, running.statuses["a"].exit_code) == (AttemptPhase.STOPPED, -9)


def test_a_suspended_attempt_is_killed_at_once(running: Site) -> None:
    first = running.launcher.started[0]
    first.stopped = True
    running.decide(run(0, "b"))
    running.until_phase("b", AttemptPhase.STARTING)
    assert (first.asked, running.statuses["a"].phase) == (0, AttemptPhase.STOPPED)
    assert running.now_ms < LIMITS.drain_ms


def test_a_drain_without_an_attempt_is_done_at_once(site: Site) -> None:
    site.decide(drain(-1))
    site.until_phase("d", AttemptPhase.STOPPED)


def test_a_newer_intent_overtakes_one_that_is_being_checked(running: Site) -> None:
    running.launcher.check_with = (None, "")
    running.decide(run(0, "b"))
    running.step()
    running.launcher.check_with = (0, "")
    running.decide(run(1, "c"))
    running.until_phase("c", AttemptPhase.STARTING)
    assert running.statuses["b"].phase is AttemptPhase.SUPERSEDED
    assert len(running.launcher.started) == 2


def test_a_void_intent_is_not_executed(running: Site) -> None:
    running.decide(run(0, "b"))
    running.decide(run(0, "void"))
    running.until_phase("b", AttemptPhase.STARTING)
    running.step()
    assert "void" not in running.statuses


@pytest.mark.parametrize(
    ("end", "phase", "name", "message"),
    [
        (AttemptEnd(5, 14, "the query failed"), AttemptPhase.FAILED, "DetectorFailed", "the query failed"),
        (AttemptEnd(5, 13, "stopped"), AttemptPhase.STOPPED, "DetectorStopped", "stopped"),
        (AttemptEnd(5, 1), AttemptPhase.FAILED, "FraudError", "ended with exit code 1"),
        (AttemptEnd(5, -9), AttemptPhase.FAILED, None, "killed by signal 9"),
        (AttemptEnd(5), AttemptPhase.LOST, None, "its processes are gone, and their exit code is unknown"),
    ],
)
def test_the_end_of_an_attempt_is_reported_without_a_restart(
    running: Site, end: AttemptEnd, phase: AttemptPhase, name: str | None, message: str
) -> None:
    running.launcher.started[0].ended = end
    for _ in range(5):
        running.step()
    told = running.statuses["a"]
    assert (told.phase, told.error_name, told.message, told.ended_ms) == (phase, name, message, 5)
    assert len(running.launcher.started) == 1


def test_another_agent_that_has_taken_over_fences_before_anything_is_started(site: Site) -> None:
    site.decide(run(-1, "a"))
    site.fenced = True
    with pytest.raises(Fenced):
        site.step()
    assert site.launcher.started == []


def test_batches_are_counted_from_the_attempts_first(running: Site) -> None:
    for batch_id, attempt in ((6, "earlier"), (7, "a"), (8, "a"), (9, None)):
        running.agent.record_batch(BatchProgress("q", batch_id, {}, 0, [], 0, 0, 0, 0, 0, 0, 0, 0, attempt=attempt))
    running.step(LIMITS.heartbeat_ms + 1)
    assert running.statuses["a"].batches_committed == 2


def seen_as(phase: AttemptPhase, epoch: int = 0) -> DeploymentReports:
    status = AttemptStatus("cards", "a", epoch, phase, 0, "agent-0", "elsewhere")
    return DeploymentReports({"a": Attempt(0, status)})


@pytest.mark.parametrize(
    ("phase", "becomes"),
    [
        (AttemptPhase.ACCEPTED, AttemptPhase.STARTING),  # nothing was started yet
        (AttemptPhase.STARTING, AttemptPhase.LOST),
        (AttemptPhase.RUNNING, AttemptPhase.LOST),
    ],
)
def test_an_attempt_of_another_agent_gets_its_phase(site: Site, phase: AttemptPhase, becomes: AttemptPhase) -> None:
    site.decide(run(-1, "a"))
    site.agent.take_over(site.intents, seen_as(phase), 0)
    site.until_phase("a", becomes)


def test_a_recreated_intent_log_is_read_from_its_start(running: Site) -> None:
    for attempt_id in ("b", "c"):
        running.decide(run(running.intents.epoch, attempt_id))
        running.until_phase(attempt_id, AttemptPhase.STARTING)
    running._intents.clear()
    running.step()
    assert running.launcher.started[-1].asked == 0, "what runs is left alone until something is wanted"
    running.decide(run(-1, "new"))
    running.until_phase("new", AttemptPhase.STARTING)
    assert running.statuses["c"].phase is AttemptPhase.STOPPED
    assert running.beats[-1].executed_epoch == 0


def test_a_refused_or_ended_attempt_is_not_started_again(site: Site) -> None:
    site.decide(run(-1, "a"))
    site.agent.take_over(site.intents, seen_as(AttemptPhase.REFUSED), 0)
    for _ in range(5):
        site.step()
    assert (site.launcher.started, site.phases) == ([], [])


def test_attempts_of_the_previous_agent_on_this_host_are_adopted(running: Site) -> None:
    successor = Agent(ME, running.launcher, running._write, LIMITS, KEYS.require)
    running.launcher.left = running.launcher.started[0]
    successor.take_over(running.intents, seen_as(AttemptPhase.RUNNING), running.now_ms)
    successor.step(running.intents, running.now_ms + 1)
    assert successor.runs
    assert running.beats[-1].current is not None
    assert running.beats[-1].current.phase is AttemptPhase.RUNNING
    assert len(running.launcher.started) == 1


@pytest.mark.parametrize("kind", ["run", "drain"])
def test_a_forged_intent_is_refused_by_name_and_the_detector_continues(running: Site, kind: str) -> None:
    """The forger uses the id of the running attempt, whose report must stay."""
    attempt_id = running.launcher.started[-1].order.intent.attempt_id
    running.keys = IntentKeys("f" * 64, "the forger")
    running.decide(run(0, attempt_id) if kind == "run" else drain(0, attempt_id))
    running.until_phase("refused-1", AttemptPhase.REFUSED)
    assert running.statuses["refused-1"].error_name == "IntentForged"
    assert running.statuses[attempt_id].phase is AttemptPhase.RUNNING
    assert (len(running.launcher.started), running.launcher.started[-1].asked) == (1, 0)

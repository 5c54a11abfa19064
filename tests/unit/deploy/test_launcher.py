"""Detectors as detached processes: stand-ins for them, real processes, no broker and no Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fraud_ops.verdicts.attempt_end import assess_end
from fraud_ops.verdicts.verdict import Health
from fraud_rules.deploy.agent.allow_list import AllowList
from fraud_rules.deploy.agent.home import AgentHome, AttemptEnd
from fraud_rules.deploy.agent.members import kill_members, members
from fraud_rules.deploy.agent.process_launcher import ProcessAttempt, ProcessLauncher
from fraud_rules.deploy.agent.starter import LOG_BYTES
from fraud_rules.deploy.agent.watch import AgentIdentity, AttemptWatch
from fraud_rules.deploy.code import code_digest_of_wheel
from fraud_rules.deploy.intent import IntentRecord
from fraud_rules.errors import AttemptUnreachable, ReleaseInvalid, ReleaseNotAllowed
from tests.support.deployments import RELEASE, run
from tests.support.processes.running_agent import stand_in
from tests.support.small_disk import small_disk
from tests.support.waiting import until

ONE, TWO = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("one", "two"))
"""Attempt ids. Processes are found by these ids, so another checkout that runs this test has others."""

LOUD = """
import sys
def main():
    for line in range(300):
        sys.stderr.write("x" * 65536 + "\\n")
    sys.stderr.write("detector: the disk is full\\n")
    return 8
if __name__ == "__main__":
    sys.exit(main())
"""


CUT = """
import os, sys, time
from pathlib import Path
def main():
    for line in range(40):
        sys.stderr.write("x" * 65536 + "\\n")
    sys.stderr.write("detector: running\\ndetector: a fault\\n")
    sys.stderr.flush()
    while not Path(sys.modules["__main__"].__file__).with_name("enlarged").exists():
        time.sleep(0.05)
    sys.stderr.write("after the gap\\n")
    return 8
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[ProcessLauncher]:
    environ = {**os.environ, "FRAUD_TICK_MS": "1", "FRAUD_KAFKA_SASL_USERNAME": "me", "FRAUD_REGISTRY_PROPERTIES": "/r"}
    allowed = AllowList((RELEASE.bootstrap,), ("local*",), (), (tmp_path,))
    launcher = ProcessLauncher(AgentHome(tmp_path / "agent"), environ, allowed)
    yield launcher
    for folder in launcher.home.attempts():
        kill_members(folder.path.name)


def record(wheel: Path, attempt_id: str = ONE, epoch: int = 0) -> IntentRecord:
    release = msgspec.structs.replace(RELEASE, wheel=str(wheel), code=code_digest_of_wheel(wheel))
    return IntentRecord(epoch, 0, run(-1, attempt_id, release=release), void=False)


def running(launcher: ProcessLauncher, wheel: Path, attempt_id: str = ONE, epoch: int = 0) -> ProcessAttempt:
    attempt = launcher.start(record(wheel, attempt_id, epoch), 0)
    until(lambda: attempt.folder.running, "it runs")
    return attempt


def ended(attempt: ProcessAttempt) -> AttemptEnd:
    return until(attempt.end, "it has ended")


def assert_nothing_left(attempt_id: str) -> None:
    """Wait for the starter, which ends a moment after it has reported the detector's end."""
    until(lambda: not members(attempt_id), "nothing is left of it")


def test_an_attempt_starts_drains_and_leaves_no_process(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl"))
    assert attempt.end() is None
    driver = next(process for process in members(ONE) if "detector" in process.cmdline())
    inherited = {name: value for name, value in driver.environ().items() if name.startswith("FRAUD_")}
    own = {
        "FRAUD_ATTEMPT": ONE,
        "FRAUD_WORK": str(attempt.folder.work),
        "FRAUD_KAFKA_SASL_USERNAME": "me",
        "FRAUD_REGISTRY_PROPERTIES": "/r",
    }
    assert inherited == own, "a release's settings are its own"
    attempt.drain()
    assert ended(attempt).exit_code == 0
    assert_nothing_left(ONE)


def test_an_attempt_outlives_its_launcher_and_is_found_again(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl"))
    found = launcher.newest()
    assert found is not None
    assert found.order == attempt.order
    found.drain()
    assert ended(found).exit_code == 0


def test_a_suspended_attempt_is_killed_at_once(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl", obeys=False))
    for process in members(ONE):
        process.send_signal(signal.SIGSTOP)
    until(attempt.is_stopped, "it stands still")
    attempt.kill()
    assert (members(ONE), ended(attempt).exit_code) == ([], -signal.SIGKILL)


def test_an_attempt_without_its_starter_is_still_drained(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl"))
    next(process for process in members(ONE) if "fraud_rules.deploy.agent.starter" in process.cmdline()).kill()
    assert attempt.end() is None, "the driver lives, and holds the attempt"
    attempt.drain()
    assert ended(attempt).exit_code is None
    assert_nothing_left(ONE)


def test_the_log_is_bounded_and_keeps_its_last_line(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = launcher.start(record(stand_in(tmp_path / "a.whl", source=LOUD)), 0)
    end = ended(attempt)
    assert (end.exit_code, end.said) == (8, "the disk is full")
    logs = [attempt.folder.log, attempt.folder.log.with_name("detector.log.1")]
    assert all(0 < log.stat().st_size <= LOG_BYTES for log in logs)


@pytest.mark.parametrize("enlarged", [False, True])
def test_a_full_disk_cuts_the_log_and_never_ends_the_detector(
    enlarged: bool, launcher: ProcessLauncher, tmp_path: Path
) -> None:
    with small_disk(launcher.home.path, "512k") as enlarge:
        attempt = launcher.start(record(stand_in(tmp_path / "a.whl", source=CUT)), 0)
        watch = AttemptWatch(AgentIdentity("cards", "agent-1", "host-1", "code"), attempt)
        until(lambda: watch.status(0).message, "the agent reports the cut")
        status = watch.status(0)
        assert (status.phase.is_terminal, "the disk does not accept it" in (status.message or "")) == (False, True)
        if enlarged:
            enlarge()
        (attempt.folder.code / "enlarged").touch()
        end = ended(attempt)
        assert (end.exit_code, (end.said or "").split(";")[0]) == (8, "a fault")
        health = assess_end(watch.status(0)).health
        assert health is (Health.CHECKPOINT_DAMAGED if enlarged else Health.DISK_FULL)
        if enlarged:
            log = attempt.folder.log.read_bytes()
            assert b"bytes of output are missing here: [Errno 28] No space left on device\n" in log
            assert log.endswith(b"after the gap\n")
        until(lambda: not members(ONE), "its starter has ended")


def test_an_order_without_a_start_is_executed_once(launcher: ProcessLauncher, tmp_path: Path) -> None:
    wheel = stand_in(tmp_path / "a.whl")
    attempt = running(launcher, wheel)
    attempt.kill()
    for name in ("started", "running", "end.json"):
        (attempt.folder.path / name).unlink()
    found = launcher.newest()
    assert found is not None
    until(lambda: found.folder.running, "it runs")
    second = subprocess.run(_starter_of(ONE), check=False, timeout=180, cwd=tmp_path)
    assert second.returncode == 1, "another starter finds the attempt held"


def _starter_of(attempt_id: str) -> list[str]:
    return next(p.cmdline() for p in members(attempt_id) if "fraud_rules.deploy.agent.starter" in p.cmdline())


def test_an_earlier_attempt_that_still_runs_is_ended(launcher: ProcessLauncher, tmp_path: Path) -> None:
    wheel = stand_in(tmp_path / "a.whl")
    running(launcher, wheel)
    running(launcher, wheel, TWO, epoch=1)
    found = launcher.newest()
    assert found is not None
    assert (found.order.epoch, members(ONE), found.end()) == (1, [], None)


def test_an_invisible_attempt_that_holds_its_folder_is_not_doubled(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl"))
    attempt.kill()
    (attempt.folder.path / "end.json").unlink()
    with attempt.folder.lock() or pytest.fail("nobody holds it"), pytest.raises(AttemptUnreachable, match=ONE):
        launcher.newest()


def test_a_held_driver_continues_when_it_is_released(launcher: ProcessLauncher, tmp_path: Path) -> None:
    held = launcher.start(record(stand_in(tmp_path / "a.whl")), 5, held=True)
    until(lambda: held.folder.ready, "it is ready")
    assert not held.folder.running
    released = held.proceed(7)
    assert (released.order.held, released.order.created_ms) == (False, 7)
    until(lambda: held.folder.running, "it runs")
    assert launcher.newest() == released


def test_an_agent_drops_held_drivers_and_adopts_running_ones(launcher: ProcessLauncher, tmp_path: Path) -> None:
    wheel = stand_in(tmp_path / "a.whl")
    ran = running(launcher, wheel)
    held = launcher.start(record(wheel, TWO, 1), 5, held=True)
    until(lambda: held.folder.ready, "it is ready")
    assert launcher.newest() == ran
    assert ran.end() is None
    assert_nothing_left(TWO)
    again = launcher.start(record(wheel, TWO, 1), 6, held=True)
    until(lambda: again.folder.ready, "it is ready once more")


def test_a_check_evaluates_with_the_releases_own_code(launcher: ProcessLauncher, tmp_path: Path) -> None:
    def judged(wheel: Path) -> tuple[int | None, str]:
        check = launcher.check(record(wheel))
        until(lambda: check.poll() is not None, "the check ends")
        return check.poll(), check.output()

    assert judged(stand_in(tmp_path / "good.whl"))[0] == 0
    code, said = judged(stand_in(tmp_path / "bad.whl", source="def main(:"))
    assert (code, "SyntaxError" in said) == (ReleaseInvalid.exit_code, True)
    swapped = record(stand_in(tmp_path / "swapped.whl"))
    stand_in(tmp_path / "swapped.whl", obeys=False)
    with pytest.raises(ReleaseInvalid, match="swapped"):
        launcher.validate(swapped)
    outside = msgspec.structs.replace(RELEASE, spark={"spark.driver.extraJavaOptions": "-XX:OnOutOfMemoryError=x"})
    with pytest.raises(ReleaseNotAllowed, match="extraJavaOptions"):
        launcher.validate(IntentRecord(0, 0, run(-1, release=outside), void=False))
    slow = launcher.check(record(stand_in(tmp_path / "slow.whl", source="import time; time.sleep(600)")))
    assert slow.poll() is None
    slow.cancel()
    assert slow.poll() == -signal.SIGKILL


def test_the_oldest_ended_attempts_are_removed(launcher: ProcessLauncher, tmp_path: Path) -> None:
    attempt = running(launcher, stand_in(tmp_path / "a.whl"))
    order = attempt.order
    for epoch in range(1, 30):
        folder = launcher.home.attempt(f"old-{epoch}")
        folder.write_order(msgspec.structs.replace(order, epoch=epoch))
        folder.write_end(AttemptEnd(0, 0))
    launcher.home.prune()
    kept = [folder.path.name for folder in launcher.home.attempts()]
    assert kept == [ONE, *[f"old-{epoch}" for epoch in range(10, 30)]], "and never one that runs"

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fraud_rules.errors import Stalled
from fraud_rules.runtime.file_lock import FileLock
from fraud_rules.runtime.lock_wait import LockPatience, await_lock
from fraud_rules.runtime.process import is_stopped
from tests.support.waiting import until

HOLDER = """
import sys
from pathlib import Path
from fraud_rules.runtime.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
assert lock.acquire()
print("locked", flush=True)
while sys.argv[2] == "works":
    pass
input()
"""
HOPELESS = LockPatience(quiet_s=0.0, idle_s=0.5, limit_s=120.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock, and works or waits."""
    command = [sys.executable, "-c", HOLDER, str(path), getattr(request, "param", "waits")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_suspended_holder_ends_the_wait_and_is_named(
    path: Path, holder: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    holder.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(psutil.Process(holder.pid)), "the holder is suspended")
    named = rf"process {holder.pid} \(suspended\) holds the view .* no CPU time .*kill -CONT.*kill -KILL"
    with FileLock(path) as lock, caplog.at_level(logging.WARNING), pytest.raises(Stalled, match=named):
        await_lock(lock, "the view", HOPELESS)
    assert [each.getMessage() for each in caplog.records] == [
        f"waits for the view, which process {holder.pid} (suspended) holds"
    ]


def test_the_lock_is_acquired_once_the_holder_has_ended(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    with FileLock(path) as lock:
        with pytest.raises(Stalled):
            await_lock(lock, "the view", HOPELESS)
        holder.kill()
        await_lock(lock, "the view", LockPatience())
        assert not FileLock(path).acquire()


@pytest.mark.parametrize("holder", ["works"], indirect=True)
def test_a_working_holder_gets_the_whole_time(path: Path, holder: subprocess.Popen[str]) -> None:
    patience = LockPatience(quiet_s=0.0, idle_s=60.0, limit_s=0.5)
    with FileLock(path) as lock, pytest.raises(Stalled, match=rf"process {holder.pid} has held the view"):
        await_lock(lock, "the view", patience)


def test_a_holder_of_another_container_gets_the_whole_time(path: Path, holder: subprocess.Popen[str]) -> None:
    """Its pid is unknown here, or another process has it."""
    with path.open("r+") as file:
        file.write("1".ljust(20))
    patience = LockPatience(quiet_s=0.0, idle_s=0.1, limit_s=1.5)
    with FileLock(path) as lock, pytest.raises(Stalled, match=r"process 1 \(not visible here\) has held the view"):
        await_lock(lock, "the view", patience)

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.runtime.file_lock import FileLock, locked

HOLDER = """
import sys
from pathlib import Path
from fraud_rules.runtime.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
assert lock.acquire(shared=sys.argv[2] == "shared")
print("locked", flush=True)
input()
"""


class Busy(Exception):
    pass


def held_elsewhere(path: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    yield from held_elsewhere(path, "alone")


@pytest.fixture
def reader(path: Path) -> Iterator[subprocess.Popen[str]]:
    yield from held_elsewhere(path, "shared")


def test_a_wait_has_a_limit_and_its_error_names_the_holder(path: Path, holder: subprocess.Popen[str]) -> None:
    began_s = time.monotonic()
    with pytest.raises(Busy, match=f"^{holder.pid}$"), locked(path, 0.05, Busy):
        pass
    assert time.monotonic() - began_s >= 0.05


def test_a_killed_process_holds_no_lock(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with locked(path, 0, Busy), FileLock(path) as again:
        assert again.holder() == str(os.getpid())
        assert not again.acquire()


def test_a_waiting_process_gets_the_lock_when_it_is_free(path: Path, holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None
    holder.stdin.close()
    with locked(path, 30, Busy):
        pass


def test_readers_share_a_lock_and_exclude_a_writer(path: Path, reader: subprocess.Popen[str]) -> None:
    with FileLock(path) as ours:
        assert not ours.acquire()
        assert ours.acquire(shared=True)


def test_a_child_that_inherits_the_file_holds_the_lock(path: Path) -> None:
    with FileLock(path) as lock:
        assert lock.acquire()
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    with FileLock(path) as again:
        assert not again.acquire()
        child.communicate(b"")
        assert again.acquire()

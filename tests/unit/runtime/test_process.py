"""A process is found again by pid, start time and marker together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fraud_rules.runtime.process import (
    ProcessHandle,
    await_ends,
    end_processes,
    end_tree,
    environment_of,
    is_stopped,
    kill_processes_with,
    kill_session,
    processes_with,
    start_detached,
)
from tests.support.waiting import until

MARKER = f"marker-of-{os.getpid()}"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Runs until it is killed, or its stdin closes."""
    with subprocess.Popen([sys.executable, "-c", "input()", MARKER], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def handle_of(child: subprocess.Popen[bytes]) -> ProcessHandle:
    handle = ProcessHandle.of(child.pid, MARKER)
    assert handle is not None
    return handle


def test_a_kept_handle_finds_the_process(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    handle_of(child).write(tmp_path / "handle.json")
    kept = ProcessHandle.read(tmp_path / "handle.json")
    assert kept is not None
    process = kept.process()
    assert process is not None
    assert process.pid == child.pid


def test_an_ended_process_that_its_parent_does_not_reap_has_ended() -> None:
    """In a container without an init process, nothing reaps the orphans."""
    parent = "import subprocess as s, sys; print(s.Popen([sys.executable, '-c', 'input()'], stdin=s.PIPE).pid); input()"
    with subprocess.Popen(
        [sys.executable, "-uc", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent_process:
        assert parent_process.stdout is not None
        orphan = psutil.Process(int(parent_process.stdout.readline()))
        assert end_processes([orphan], grace_s=0) == []
        assert orphan.status() == psutil.STATUS_ZOMBIE
        parent_process.kill()


def test_a_recycled_pid_is_not_the_process(child: subprocess.Popen[bytes]) -> None:
    handle = handle_of(child)
    assert replace(handle, started_s=handle.started_s - 60).process() is None
    assert replace(handle, marker="another").process() is None
    assert replace(handle, marker="another").end(grace_s=0) is False
    assert child.poll() is None


def test_a_process_is_found_from_its_first_moment(log: Path) -> None:
    """A process that executes its program has no command line and no environment for a moment."""
    for _ in range(30):
        process = marked(SLEEPER, log)
        handle = ProcessHandle.of(process.pid, SLEEPER)
        assert handle is not None
        assert handle.process() is not None
        process.kill()
        process.wait()
        process = marked(SLEEPER, log)
        assert environment_of(psutil.Process(process.pid))[VARIABLE] == str(log)
        process.kill()
        process.wait()


def test_without_a_handle_the_marker_finds_it(child: subprocess.Popen[bytes]) -> None:
    found = ProcessHandle.find(MARKER)
    assert found is not None
    assert found.pid == child.pid
    assert ProcessHandle.find("a marker that nobody has") is None


@pytest.mark.parametrize("grace_s", [0.0, 5.0])
def test_end_returns_when_it_is_gone(child: subprocess.Popen[bytes], grace_s: float) -> None:
    handle = handle_of(child)
    assert handle.end(grace_s) is True
    assert handle.process() is None
    assert handle.end(grace_s) is False


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"pid": "x", "started_s": 1, "marker": ""}', b"\xff"])
def test_a_damaged_handle_is_no_handle(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "handle.json").write_bytes(text)
    assert ProcessHandle.read(tmp_path / "handle.json") is None


VARIABLE = "FRAUD_TEST_OF_PROCESSES"
FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
SLEEPER = "import time; time.sleep(600)"


def marked(script: str, log: Path) -> subprocess.Popen[bytes]:
    """A detached process that runs a script and carries this test's mark in its environment."""
    environment = {**os.environ, VARIABLE: str(log)}
    return start_detached([sys.executable, "-c", script], log, folder=log.parent, environment=environment)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "process.log"
    kill_processes_with(VARIABLE, str(tmp_path / "process.log"))


def test_a_detached_process_has_its_own_session_and_log(log: Path) -> None:
    log.write_text("before\n")
    process = marked("import os, sys; print(os.getsid(0), os.getcwd()); print('fault', file=sys.stderr)", log)
    assert process.wait() == 0
    assert sorted(log.read_text().split("\n")) == sorted(["before", f"{process.pid} {log.parent}", "fault", ""])


def test_a_log_can_be_written_anew(log: Path) -> None:
    log.write_text("before\n")
    start_detached([sys.executable, "-c", "print('after')"], log, append=False).wait()
    assert log.read_text() == "after\n"


def test_a_variable_of_the_environment_finds_a_process_and_its_children(log: Path) -> None:
    process = marked(FAMILY, log)
    until(lambda: len(processes_with(VARIABLE, str(log))) == 2, "both processes run")
    assert all(environment_of(each)[VARIABLE] == str(log) for each in processes_with(VARIABLE, str(log)))
    assert processes_with(VARIABLE, "another") == []
    assert kill_processes_with(VARIABLE, str(log), excluded=[process.pid], within_s=1.0) == []
    assert [each.pid for each in processes_with(VARIABLE, str(log))] == [process.pid]
    assert kill_processes_with(VARIABLE, str(log)) == []
    assert processes_with(VARIABLE, str(log)) == []


def test_a_stopped_process_is_killed_too(log: Path) -> None:
    process = psutil.Process(marked(SLEEPER, log).pid)
    process.suspend()
    until(lambda: is_stopped(process), "the process is stopped")
    assert kill_processes_with(VARIABLE, str(log)) == []
    assert not is_stopped(process)


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(log: Path) -> None:
    process = marked(DEAF, log)
    until(lambda: "deaf" in log.read_text(), "the process ignores SIGTERM")
    assert end_processes([psutil.Process(process.pid)], grace_s=0.1) == []
    assert processes_with(VARIABLE, str(log)) == []


def test_an_ended_tree_leaves_no_descendants(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_rules.runtime.process._DESCENDANTS_S", 0.1)
    environment = {**os.environ, VARIABLE: str(log)}
    process = start_detached([sys.executable, "-c", FAMILY, MARKER], log, environment=environment)
    until(lambda: len(processes_with(VARIABLE, str(log))) == 2, "both processes run")
    assert end_tree(ProcessHandle.of(process.pid, MARKER), grace_s=5.0)
    assert processes_with(VARIABLE, str(log)) == []
    assert not end_tree(ProcessHandle.find(MARKER), grace_s=5.0)
    assert not end_tree(None, grace_s=5.0)


def test_killing_a_session_ends_the_children_in_it(log: Path) -> None:
    process = marked(FAMILY, log)
    until(lambda: len(processes_with(VARIABLE, str(log))) == 2, "both processes run")
    kill_session(process)
    process.wait()
    until(lambda: not processes_with(VARIABLE, str(log)), "both processes have ended")
    kill_session(process)


FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_still_runs() -> None:
    """A killed JVM is in this state until its last thread has ended, and keeps its port for so long."""
    with subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        process = psutil.Process(started.pid)
        until(lambda: process.status() == psutil.STATUS_ZOMBIE, "the first thread has ended")
        left = await_ends([process], 0.3)
        assert end_processes([process], 0) == []
    assert left == [process]

"""Starts, finds and ends the processes of this product.

A process starts detached: in a session of its own, so that a Ctrl-C in the terminal does not reach it and it outlives
the process that started it. A `ProcessHandle` identifies a process by its pid, its start time and one of its
arguments together, so that another process with a recycled pid is never taken for it. `processes_with` finds a process
and all its descendants by a variable of the environment, which child processes inherit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from fraud_rules.errors import Stalled
from fraud_rules.runtime.atomic_file import Durability, write_file

_DESCENDANTS_S = 5.0
_KILLED_S = 10.0
_POLL_S = 0.1
_EXECUTED_S = 1.0
_SAME_START_S = 2.0  # the start time is computed from the boot time, which moves when the clock is set


@dataclass(frozen=True, slots=True)
class ProcessHandle:
    """The identity of a process. `marker` is a command-line argument that no other process has; `started_s` is in epoch
    seconds."""

    pid: int
    started_s: float
    marker: str

    @classmethod
    def of(cls, pid: int, marker: str) -> ProcessHandle | None:
        """The handle of a running process; None if it has already ended."""
        try:
            return cls(pid, psutil.Process(pid).create_time(), marker)
        except psutil.NoSuchProcess:
            return None

    @classmethod
    def find(cls, marker: str) -> ProcessHandle | None:
        """Find a running process with an argument that begins with `marker`. The process needs no written handle."""
        for process in psutil.process_iter():
            try:
                found = next((each for each in arguments_of(process) if each.startswith(marker)), None)
                if found is not None and process.status() != psutil.STATUS_ZOMBIE:
                    return cls(process.pid, process.create_time(), found)
            except psutil.Error:
                continue
        return None

    @classmethod
    def read(cls, path: Path) -> ProcessHandle | None:
        """Read a handle from a file; None if the file is missing or was only partly written."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None

    def write(self, path: Path) -> None:
        """Write the handle to a file atomically."""
        write_file(path, msgspec.json.encode(self), Durability.NONE)

    def process(self) -> psutil.Process | None:
        """The running process; None if it has ended, even if its pid now belongs to another process."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_s) < _SAME_START_S and self.marker in arguments_of(process)
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def end(self, grace_s: float) -> bool:
        """Terminate the process, kill it after `grace_s`, and wait for its end. Returns False if it was not running.

        Raises Stalled if the process still exists some time after it was killed.
        """
        process = self.process()
        if process is None:
            return False
        if end_processes([process], grace_s):
            raise Stalled(
                f"process {self.pid} has not ended {_KILLED_S:g} s after it was killed, because it waits for a disk"
            )
        return True


def start_detached(
    command: Sequence[str],
    log: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    append: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, without input. `log` receives its output and its errors."""
    with log.open("ab" if append else "wb") as file:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """The running processes of this container whose environment has this value of a variable."""
    return [process for process in psutil.process_iter() if environment_of(process).get(variable) == value]


def environment_of(process: psutil.Process) -> Mapping[str, str]:
    """The environment with which a process started; empty if it has ended or belongs to another user."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return {}
        return process.environ() or _executed(process).environ()
    except (psutil.Error, OSError):
        return {}


def arguments_of(process: psutil.Process) -> Sequence[str]:
    """The command line of a process; empty if it has ended."""
    try:
        return process.cmdline() or _executed(process).cmdline()
    except (psutil.Error, OSError):
        return ()


def _executed(process: psutil.Process) -> psutil.Process:
    """Wait until a process shows its command line.

    While a process executes a program for the first time, it has neither a command line nor an environment, and its
    parent already continues. On a busy machine this takes some milliseconds. A thread of the kernel has no program.
    """
    deadline_s = time.monotonic() + _EXECUTED_S
    while process.exe() and not process.cmdline() and time.monotonic() < deadline_s:
        time.sleep(0.001)
    return process


def is_stopped(process: psutil.Process) -> bool:
    """Whether a signal or a debugger has stopped a process."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False


def terminate_processes(processes: Iterable[psutil.Process]) -> None:
    """Send SIGTERM to each process that still runs."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()


def kill_processes(processes: Iterable[psutil.Process], within_s: float = _KILLED_S) -> list[psutil.Process]:
    """Kill the processes and wait for their end. Returns those that still exist after `within_s`.

    Such a process waits for a disk or a file system that does not answer. It executes no further code, but keeps its
    files open.
    """
    killed = list(processes)
    for process in killed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return await_ends(killed, within_s)


def await_ends(processes: Iterable[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait for the end of the processes. Returns those that still run after `within_s`.

    An ended process that its parent does not reap counts as ended. In a container without an init process, its id stays
    for as long as the container runs. A killed process shows the state of an ended one before its last thread has
    ended; until then, its ports are in use and its files are open.
    """
    deadline_s, alive = time.monotonic() + within_s, list(processes)
    while True:
        remaining_s = max(0.0, deadline_s - time.monotonic())
        _, left = psutil.wait_procs(alive, timeout=min(remaining_s, _POLL_S))
        alive = [process for process in left if not _has_ended(process)]
        if not alive or remaining_s == 0:
            return alive


def _has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended with all its threads."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return True


def end_processes(processes: Iterable[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """Terminate the processes, kill them after `grace_s`, and wait for their end. Returns those that still exist."""
    alive = list(processes)
    if grace_s > 0:
        terminate_processes(alive)
        alive = await_ends(alive, grace_s)
    return kill_processes(alive)


def end_tree(handle: ProcessHandle | None, grace_s: float) -> bool:
    """End a process, then kill those of its descendants (JVM, Python workers) that do not end by themselves.

    Returns False if the process was not running. Raises Stalled as `ProcessHandle.end` does.
    """
    process = None if handle is None else handle.process()
    if handle is None or process is None:
        return False
    try:
        descendants = process.children(recursive=True)
    except psutil.NoSuchProcess:
        descendants = []
    handle.end(grace_s)
    kill_processes(await_ends(descendants, _DESCENDANTS_S))
    return True


def kill_processes_with(
    variable: str, value: str, *, excluded: Sequence[int] = (), within_s: float = _KILLED_S
) -> list[psutil.Process]:
    """Kill the processes that `processes_with` finds, except the ids in `excluded`, until it finds no other process.

    A process can start children while it is being killed. Returns the processes that still exist after `within_s`.
    """
    deadline_s = time.monotonic() + within_s
    while left := [process for process in processes_with(variable, value) if process.pid not in excluded]:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            return left
        kill_processes(left, remaining_s)
    return []


def kill_session(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill a process that started detached, and all other processes in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def holder_of(port: int) -> str:
    """Name the process that listens on a TCP port, for an error message."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if listens and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return f"another process (not visible to user {os.getuid()})"

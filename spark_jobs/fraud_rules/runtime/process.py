"""Finds processes that this product started.

A process is identified by its pid, its start time and an argument of its command line together, so that a recycled pid
is never mistaken for it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from fraud_rules.runtime.atomic_file import Durability, write_file

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
        """Find a running process with `marker` among its arguments, if its handle was never written or was lost."""
        for process in psutil.process_iter():
            try:
                if marker in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    return cls(process.pid, process.create_time(), marker)
            except psutil.Error:
                continue
        return None

    @classmethod
    def read(cls, path: Path) -> ProcessHandle | None:
        """Read a handle from a file; None if the file is missing or was only partly written."""
        try:
            document = json.loads(path.read_bytes())
            return cls(int(document["pid"]), float(document["started_s"]), str(document["marker"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Write the handle to a file atomically."""
        write_file(path, json.dumps(asdict(self)).encode(), Durability.NONE)

    def process(self) -> psutil.Process | None:
        """The running process; None if it has ended, even if its pid now belongs to another process."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_s) < _SAME_START_S and self.marker in process.cmdline()
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def end(self, grace_s: float) -> bool:
        """Terminate the process, kill it after `grace_s`, and wait for its end. Returns False if it was not running."""
        process = self.process()
        if process is None:
            return False
        try:
            if grace_s > 0:
                process.terminate()
                try:
                    process.wait(grace_s)
                except psutil.TimeoutExpired:
                    process.kill()
            else:
                process.kill()
            process.wait()
        except psutil.NoSuchProcess:
            return True
        return True


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

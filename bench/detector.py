"""Starts the detector as a separate process, and stops it with all its child processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import psutil

from fraud_rules.configuration.project import Project
from fraud_rules.runtime.process import kill_processes, start_detached

ProcessKind: TypeAlias = Literal["driver", "jvm", "workers"]

READY = "detector: running"
_READY_S = 180.0
_DRAIN_S = 90.0
_POLL_S = 0.02


class Detector:
    """A running detector; `started` is the start time of its process (time.monotonic)."""

    def __init__(self, project: Project, arguments: list[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._known: dict[int, psutil.Process] = {}
        self.started = time.monotonic()
        command = [sys.executable, str(project.root / "spark_jobs" / "detector.py"), *arguments]
        self._process = start_detached(command, log, folder=project.root, environment={**os.environ, **environ})

    @property
    def pid(self) -> int:
        """The process id of the Python driver."""
        return self._process.pid

    def await_ready(self, timeout_s: float = _READY_S) -> None:
        """Wait until its query runs."""
        deadline = time.monotonic() + timeout_s
        while READY not in self.log.read_text(errors="replace"):
            self.check()
            assert time.monotonic() < deadline, f"the detector did not start within {timeout_s:g} s, see {self.log}"
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise RuntimeError if the detector has ended."""
        code = self._process.poll()
        if code is not None:
            tail = self.log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"the detector ended with exit code {code}: {tail}")

    def processes(self) -> list[psutil.Process]:
        """The running processes: the driver, its JVM and its Python workers."""
        root = psutil.Process(self._process.pid)
        found = [root, *root.children(recursive=True)]
        self._known |= {each.pid: each for each in found}
        return found

    def kind_of(self, process: psutil.Process) -> ProcessKind:
        """The kind of one of `processes()`. A process that has ended counts as a worker."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid == self.pid:
                return "driver"
            if process.name() == "java":
                return "jvm"
        return "workers"

    def stop(self) -> None:
        """Stop it cleanly, then kill the remaining processes."""
        if self._process.poll() is None:
            self.processes()
            self._process.terminate()
            try:
                self._process.wait(_DRAIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end_the_rest()

    def kill(self) -> None:
        """Kill driver, JVM and workers at once (kill -9)."""
        kill_processes(self.processes(), 0.0)
        self._end_the_rest()

    def _end_the_rest(self) -> None:
        self._process.wait()
        # psutil compares start times too, so it never kills another process with the same id.
        kill_processes(self._known.values())


@contextlib.contextmanager
def command(*arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a module (`python -m` and these arguments) with these additional variables. At the end of the block, kill the
    process if it still runs."""
    environment = {**os.environ, **(environ or {})}
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def next_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line of a `command`. Raises RuntimeError if the process has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return line

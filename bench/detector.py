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
from fraud_rules.runtime.process import start_detached
from tests.support.processes.running_detector import kill_session, members_of
from tests.support.waiting import until

ProcessKind: TypeAlias = Literal["driver", "jvm", "workers"]

READY = "detector: running"
_DRAIN_S = 90.0
_POLL_S = 0.02


class Detector:
    """A running detector; `started` is the start time of its process (time.monotonic)."""

    def __init__(self, project: Project, arguments: list[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.started = time.monotonic()
        command = [sys.executable, str(project.root / "spark_jobs" / "detector.py"), *arguments]
        self._process = start_detached(command, log, folder=project.root, environment={**os.environ, **environ})

    @property
    def pid(self) -> int:
        """The process id of the Python driver."""
        return self._process.pid

    def await_ready(self) -> None:
        """Wait until its query runs."""

        def is_ready() -> bool:
            self.check()
            return READY in self.log.read_text(errors="replace")

        until(is_ready, f"the detector runs, see {self.log}", every_s=_POLL_S)

    def check(self) -> None:
        """Raise RuntimeError if the detector has ended."""
        code = self._process.poll()
        if code is not None:
            tail = self.log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"the detector ended with exit code {code}: {tail}")

    def processes(self) -> list[psutil.Process]:
        """The running processes: the driver, its JVM and its Python workers."""
        return members_of(self.pid)

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
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DRAIN_S)
        self.kill()

    def kill(self) -> None:
        """Kill driver, JVM and workers at once (kill -9)."""
        kill_session(self._process)


@contextlib.contextmanager
def command(*arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a module (`python -m` and these arguments) with these additional variables, and pipes for input and output.
    At the end of the block, kill the process if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
    )
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

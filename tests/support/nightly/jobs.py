"""The batch jobs, configured only by arguments: in turn in one process, or as a scheduler runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.runtime.process import start_detached
from tests.support.processes.in_turn import InTurn
from tests.support.processes.running_detector import Installation
from tests.support.waiting import until

_JOB_S = 280.0


def archive_of(installation: Installation) -> ArchiveStore:
    """The archive of an installation."""
    return ArchiveStore(installation.home / "archive")


class JobsInTurn(InTurn):
    """The test's handle on the process that runs the jobs. A job is a script of spark_jobs: archive, reevaluate or
    warm_up."""

    def begin(self, script: str, installation: Installation, *flags: str, schema: Path | None = None) -> None:
        """Start a job. The previous job must have ended."""
        self.begin_program(script, _arguments(script, installation, schema, flags))

    def run(
        self, script: str, installation: Installation, *flags: str, schema: Path | None = None
    ) -> tuple[int, str, str]:
        """Run a job to its end and return exit code, standard output and log."""
        self.begin(script, installation, *flags, schema=schema)
        until(lambda: self.ended() is not None, f"{script} ends", _JOB_S)
        return self.ended() or 0, self.written(), self.said()

    def archive(self, installation: Installation, *flags: str, schema: Path | None = None) -> dict[str, Any]:
        """Run the archive job, require success, and return its report."""
        code, out, err = self.run("archive", installation, *flags, schema=schema)
        assert code == 0, err[-3000:]
        result: dict[str, Any] = json.loads(out)
        return result


def start_job(script: str, installation: Installation, *flags: str) -> subprocess.Popen[bytes]:
    """Start a script of spark_jobs in a session of its own."""
    log = installation.home / f"{script}.log"
    return start_detached(_command(script, installation, flags), log, environment=installation.environment)


def run_job(script: str, installation: Installation, *flags: str) -> tuple[int, str, str]:
    """Run a script of spark_jobs in a process of its own to its end, and return exit code, standard output and log."""
    done = subprocess.run(
        _command(script, installation, flags),
        env=installation.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_JOB_S,
    )
    return done.returncode, done.stdout, done.stderr


def _command(script: str, installation: Installation, flags: tuple[str, ...]) -> list[str]:
    entry = str(installation.project.root / "spark_jobs" / f"{script}.py")
    return [sys.executable, entry, *_arguments(script, installation, None, flags)]


def _arguments(script: str, installation: Installation, schema: Path | None, flags: tuple[str, ...]) -> list[str]:
    return [
        "--bootstrap", installation.topics.bootstrap,
        "--archive", str(archive_of(installation).root),
        "--settings", str(installation.home / "detector.yaml"),
        "--schema", str(schema or installation.schema),
        *(["--nice", "0"] if script == "warm_up" else []),  # the tests use all cores for minutes
        *flags,
    ]  # fmt: skip

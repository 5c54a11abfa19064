"""The batch jobs as a scheduler runs them: separate processes, configured only by arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.runtime.process import start_detached
from tests.support.processes.running_detector import Installation


def archive_of(installation: Installation) -> ArchiveStore:
    """The archive of an installation."""
    return ArchiveStore(installation.home / "archive")


def run_job(script: str, installation: Installation, *flags: str, schema: Path | None = None) -> tuple[int, str, str]:
    """Run a script of spark_jobs to its end and return exit code, standard output and standard error."""
    done = subprocess.run(
        _command(script, installation, schema, flags),
        env=installation.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    return done.returncode, done.stdout, done.stderr


def start_job(script: str, installation: Installation, *flags: str) -> subprocess.Popen[bytes]:
    """Start a script of spark_jobs in a session of its own."""
    log = installation.home / f"{script}.log"
    return start_detached(_command(script, installation, None, flags), log, environment=installation.environment)


def _command(script: str, installation: Installation, schema: Path | None, flags: tuple[str, ...]) -> list[str]:
    return [
        sys.executable,
        str(installation.project.root / "spark_jobs" / script),
        "--bootstrap", installation.topics.bootstrap,
        "--archive", str(archive_of(installation).root),
        "--settings", str(installation.home / "detector.yaml"),
        "--schema", str(schema or installation.schema),
        "--jars", str(installation.project.jars / "connector"),
        *(["--nice", "0"] if script == "warm_up.py" else []),  # the tests use all cores for minutes
        *flags,
    ]  # fmt: skip


def archived(installation: Installation, *flags: str, schema: Path | None = None) -> dict[str, Any]:
    """Run the archive job, require success, and return its report."""
    code, out, err = run_job("archive.py", installation, *flags, schema=schema)
    assert code == 0, err[-3000:]
    result: dict[str, Any] = json.loads(out)
    return result

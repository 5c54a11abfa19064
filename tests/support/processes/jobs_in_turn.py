"""Warm-up jobs one after the other in one process: the first one loads Java and Spark, later ones reuse them.

`python -m tests.support.processes.jobs_in_turn` reads the arguments of a job as a line of JSON, runs it, and writes its
result and then its exit code, each on a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.processes.running_detector import Installation, kill_session
from tests.support.waiting import until

_JOB_S = 180.0


class WarmUpsInTurn:
    """The test's handle on the process that runs the jobs."""

    def __init__(self, home: Path, project: Project) -> None:
        self._log, self._answers = home / "warm-ups.log", home / "warm-ups"
        (home / "warm-ups-tmp").mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")}
        with self._log.open("wb") as log, self._answers.open("wb") as answers:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=project.root,
                env={**environment, "TMPDIR": str(home / "warm-ups-tmp")},
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                start_new_session=True,
            )
        self._ended = 0

    def run(self, installation: Installation) -> None:
        """Execute the open requests of a detector."""
        arguments = [
            "--bootstrap", installation.topics.bootstrap,
            "--archive", str(installation.home / "archive"),
            "--settings", str(installation.home / "detector.yaml"),
            "--schema", str(installation.schema),
            "--jars", str(installation.project.jars / "connector"),
            "--nice", "0",
        ]  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()
        until(self._has_ended, "the warm-up job ends", _JOB_S)
        self._ended += 1
        code = self._answers.read_text().splitlines()[-1]
        assert code == "0", self._log.read_text()[-3000:]

    def end(self) -> None:
        """Kill every process at once."""
        kill_session(self._process)

    def _has_ended(self) -> bool:
        assert self._process.poll() is None, f"the process is gone: {self._log.read_text()[-2000:]}"
        codes = [line for line in self._answers.read_text().splitlines() if line.isdigit()]
        return len(codes) > self._ended


def main() -> None:
    """Run a warm-up job for each line of standard input."""
    import warm_up

    for line in sys.stdin:
        sys.argv[1:] = json.loads(line)
        code = warm_up.main()
        sys.stdout.write(f"\n{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

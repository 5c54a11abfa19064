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
from tests.support.processes.running_detector import Installation, kill_session, local_spark
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
                env={**local_spark(), **environment, "TMPDIR": str(home / "warm-ups-tmp")},
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                start_new_session=True,
            )
        self._begun = 0

    def run(self, installation: Installation) -> None:
        """Execute the open requests of a detector."""
        self.begin(installation)
        code = until(self.ended, "the warm-up job ends", _JOB_S)
        assert code == "0", self.said()

    def begin(self, installation: Installation) -> None:
        """Start a job. The previous job must have ended."""
        arguments = [
            "--bootstrap", installation.topics.bootstrap,
            "--archive", str(installation.home / "archive"),
            "--settings", str(installation.home / "detector.yaml"),
            "--schema", str(installation.schema),
            "--jars", str(installation.project.jars / "connector"),
            "--nice", "0",
        ]  # fmt: skip
        assert len(self._codes()) == self._begun, "another job still runs"
        self._begun += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()

    def ended(self) -> str | None:
        """The exit code of the job; None while it runs."""
        assert self._process.poll() is None, f"the process is gone: {self.said()}"
        codes = self._codes()
        return codes[-1] if len(codes) == self._begun else None

    def said(self) -> str:
        """The end of the log of all jobs."""
        return self._log.read_text()[-3000:]

    def end(self) -> None:
        """Kill every process at once."""
        kill_session(self._process)

    def _codes(self) -> list[str]:
        """The exit codes of the jobs that have ended."""
        return [line for line in self._answers.read_text().splitlines() if line.isdigit()]


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

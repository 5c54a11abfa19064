"""Programs of spark_jobs one after the other in one process: the first loads Java and Spark, later ones reuse them.

`python -m tests.support.processes.in_turn CODES` reads the name of a program and its arguments as a line of JSON, runs
it to its end, and appends its exit code to the file CODES as a line.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.processes.running_detector import kill_session, local_spark


class InTurn:
    """The test's handle on the process that runs the programs. Its files are in `home`."""

    def __init__(self, home: Path, project: Project) -> None:
        self._home, self._project = home, project
        self._log, self._output, self._codes = (home / name for name in ("log", "output", "codes"))
        (home / "tmp").mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = self._said_from = self._written_from = 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process, which leads a session. It starts with the first program."""
        assert self._process is not None
        return self._process

    def begin_program(self, name: str, arguments: Sequence[str]) -> None:
        """Start a program. If the previous one still runs, its test has failed, and it is killed."""
        if self._process is None or self._process.poll() is not None or self.ended() is None:
            self.end()
            self._launch()
        self._said_from, self._written_from = self._log.stat().st_size, self._output.stat().st_size
        self._begun += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self.process.stdin.flush()

    def ended(self) -> int | None:
        """The program's exit code; None while it runs."""
        codes = [int(line) for line in self._codes.read_text(encoding="ascii").splitlines()]
        if len(codes) == self._begun:
            return codes[-1] if codes else 0
        assert self.process.poll() is None, f"the process is gone: {self.said()[-3000:]}"
        return None

    def said(self) -> str:
        """The program's log."""
        return _text_from(self._log, self._said_from)

    def written(self) -> str:
        """The program's standard output."""
        return _text_from(self._output, self._written_from)

    def end(self) -> None:
        """Kill every process at once."""
        if self._process is not None:
            kill_session(self._process)

    def _launch(self) -> None:
        self._begun = 0
        self._codes.write_bytes(b"")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")}
        with self._log.open("ab") as log, self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._codes)],
                cwd=self._project.root,
                env={**local_spark(), **environment, "TMPDIR": str(self._home / "tmp")},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )


def _text_from(path: Path, start: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")


def main() -> None:
    """Run a program for each line of standard input."""
    codes = Path(sys.argv[1])
    for line in sys.stdin:
        name, *sys.argv[1:] = json.loads(line)
        code = importlib.import_module(name).main()
        sys.stdout.flush()
        with codes.open("a", encoding="ascii") as file:
            file.write(f"{code}\n")


if __name__ == "__main__":
    main()

"""Detectors one after the other in one process: the first start loads Java and Spark, later starts reuse them.

`python -m tests.support.processes.detectors_in_turn` reads the arguments of a detector as a line of JSON, runs the
detector to its end, and writes its exit code on a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.kafka.timed_topics import detector_has_started, detector_starts
from tests.support.processes.running_detector import START_S, Installation, jvm_of, kill_session, local_spark
from tests.support.waiting import until


class DetectorsInTurn:
    """The test's handle on the process that runs the detectors."""

    def __init__(self, home: Path, project: Project) -> None:
        self._log, self._answers = home / "detectors.log", home / "answers"
        (home / "tmp").mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")}
        with self._log.open("wb") as log, self._answers.open("wb") as answers:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=project.root,
                env={**local_spark(), **environment, "TMPDIR": str(home / "tmp")},
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                start_new_session=True,
            )
        self._said_from = 0
        self._starts = 0

    def begin(self, installation: Installation, *flags: str) -> None:
        """Start a detector. The previous detector must have ended."""
        assert len(self._exit_codes()) == self._starts, "another detector still runs"
        self._said_from = self._log.stat().st_size
        self._starts += 1
        self._topics = installation.topics
        detector_starts(self._topics)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(installation.arguments(*flags)).encode() + b"\n")
        self._process.stdin.flush()

    def wait_ready(self) -> None:
        """Return once the detector's query runs."""
        until(self._is_ready, "the detector runs", START_S)
        detector_has_started(self._topics)

    def wait_end(self) -> int:
        """Wait for the detector's end and return its exit code."""
        (code,) = until(self._ended, "the detector ends", START_S)
        detector_has_started(self._topics)
        return code

    def ended(self) -> int | None:
        """The detector's exit code; None while it runs."""
        codes = self._ended()
        return codes[0] if codes else None

    def stop(self) -> int:
        """Drain the detector and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def said(self) -> str:
        """The detector's log without Spark's messages about each batch."""
        with self._log.open("rb") as log:
            log.seek(self._said_from)
            lines = log.read().decode("utf-8", "replace").splitlines()
        return "\n".join(line for line in lines if line.strip() and not line.startswith("Streaming "))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend the JVM, so that all records appended meanwhile form one batch."""
        jvm = jvm_of(self._process.pid)
        assert jvm is not None
        jvm.suspend()
        try:
            yield
        finally:
            jvm.resume()

    def end(self) -> None:
        """Kill every process at once."""
        kill_session(self._process)

    def _exit_codes(self) -> list[int]:
        return [int(line) for line in self._answers.read_text().splitlines()]

    def _ended(self) -> list[int] | None:
        codes = self._exit_codes()
        assert self._process.poll() is None, f"the process is gone: {self.said()[-2000:]}"
        return codes[-1:] if len(codes) == self._starts else None

    def _is_ready(self) -> bool:
        ended = self._ended()
        assert ended is None, f"the detector ended with {ended}: {self.said()[-2000:]}"
        return "detector: running" in self.said()


def main() -> None:
    """Run a detector for each line of standard input."""
    import detector

    for line in sys.stdin:
        sys.argv[1:] = json.loads(line)
        sys.stdout.write(f"{detector.main()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

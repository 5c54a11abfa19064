"""Detectors one after the other in one process: the first start loads Java and Spark, later starts reuse them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from tests.support.kafka.timed_topics import detector_has_started, detector_starts
from tests.support.processes.in_turn import InTurn
from tests.support.processes.running_detector import START_S, Installation, members_of
from tests.support.processes.signals import send_signal
from tests.support.waiting import until


class DetectorsInTurn(InTurn):
    """The test's handle on the process that runs the detectors."""

    def begin(self, installation: Installation, *flags: str) -> None:
        """Start a detector. The previous detector must have ended."""
        self._topics = installation.topics
        detector_starts(self._topics)
        self.begin_program("detector", installation.arguments(*flags))

    def wait_ready(self) -> None:
        """Return once the detector's query runs."""
        until(self._is_ready, "the detector runs", START_S)
        detector_has_started(self._topics)

    def wait_end(self) -> int:
        """Wait for the detector's end and return its exit code."""
        until(lambda: self.ended() is not None, "the detector ends", START_S)
        detector_has_started(self._topics)
        code = self.ended()
        assert code is not None
        return code

    def stop(self) -> int:
        """Drain the detector, if it runs, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def said(self) -> str:
        """The detector's log without Spark's messages about each batch."""
        lines = super().said().splitlines()
        return "\n".join(line for line in lines if line.strip() and not line.startswith("Streaming "))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend the driver, Spark and its workers, so that all records appended meanwhile form one batch.

        The driver plans batches and reads the ends of the logs without Spark. It stops first, before it plans another.
        """
        self.process.send_signal(signal.SIGSTOP)
        members = members_of(self.process.pid)
        send_signal(members, signal.SIGSTOP)
        try:
            yield
        finally:
            send_signal(members, signal.SIGCONT)

    def check(self) -> None:
        """Fail if the detector has ended."""
        ended = self.ended()
        assert ended is None, f"the detector ended with {ended}: {self.said()[-2000:]}"

    def _is_ready(self) -> bool:
        self.check()
        return "detector: running" in self.said()

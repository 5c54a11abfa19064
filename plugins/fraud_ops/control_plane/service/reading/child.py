"""A child process that answers questions (see `fraud_rules.runtime.questions`), and restarts if it ends."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

import psutil

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_rules.runtime.questions import QuestionFailure

__all__ = ["AnswerLimits", "AnswerWait", "ReadingChild"]

_NICE: Final = 5
_CHECK_S: Final = 0.5
_PROGRESS_CPU_S: Final = 0.1
"""Less CPU time is no progress: threads that wait for a broker use some, too."""
_ENDED: Final = "the process that reads payments has ended: see the log of the control plane"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The longest time in which a child makes no progress, and the longest time of an answer, in s.

    The bounds of the questions keep answers far below the second one, also if a start compiles the kernel first.
    """

    idle_s: float = 15.0
    answer_s: float = 120.0


_LIMITS: Final = AnswerLimits()


@dataclass(slots=True)
class AnswerWait:
    """How long an answer may still take: the times and CPU times of its child are arguments, in s."""

    limits: AnswerLimits
    began_s: float
    used_s: float
    progress_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.progress_s = self.began_s

    def is_over(self, now_s: float, cpu_s: float) -> bool:
        """Whether the child has made no progress, which means used no CPU time, or taken too long in all."""
        if cpu_s - self.used_s >= _PROGRESS_CPU_S:
            self.progress_s, self.used_s = now_s, cpu_s
        return now_s - self.progress_s >= self.limits.idle_s or now_s - self.began_s >= self.limits.answer_s


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    connection: Connection

    def answers(self, limits: AnswerLimits) -> bool:
        """Wait for an answer. Return False if none came in time (see `AnswerWait`)."""
        wait = AnswerWait(limits, time.monotonic(), self._cpu_s())
        while not self.connection.poll(_CHECK_S):
            if wait.is_over(time.monotonic(), self._cpu_s()):
                return False
        return True

    def _cpu_s(self) -> float:
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:  # it has just ended, which the connection reports
            return 0.0
        return times.user + times.system

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class ReadingChild:
    """The child answers one question at a time. A second thread that asks waits for its turn, so the lane of the
    questions has one thread, and requests wait without one."""

    def __init__(self, module: str, source: object, too_slow: str, limits: AnswerLimits = _LIMITS) -> None:
        """`module` runs as the child, with the file descriptor of the connection as argument, and gets `source` first.
        `too_slow` is the message if the child ends because it makes no progress."""
        self._module = module
        self._source = source
        self._too_slow = too_slow
        self._limits = limits
        self._lock = threading.Lock()
        self._child: _Running | None = None

    def ask(self, question: object) -> bytes:
        """Return the answer. Raises Unavailable."""
        with self._lock:
            answer = self._answer(question)
        if isinstance(answer, QuestionFailure):
            raise Unavailable(answer.reason)
        return bytes(answer)

    def close(self) -> None:
        """End the child. It may be in the middle of an answer."""
        child = self._child
        if child is not None:
            child.process.kill()

    def _answer(self, question: object) -> Any:
        for attempt in range(2):
            child = self._running()
            try:
                child.connection.send(question)
                if not child.answers(self._limits):
                    self._end()
                    raise Unavailable(self._too_slow)
                answer = child.connection.recv()
            except (EOFError, OSError):  # the child has ended, for example after a long time without questions
                self._end()
                if attempt:
                    raise Unavailable(
                        "the process that reads payments has ended: see the log of the control plane"
                    ) from None
                continue
            return answer
        raise AssertionError("the second attempt returns or raises")

    def _running(self) -> _Running:
        if self._child is None:
            ours, theirs = multiprocessing.Pipe()
            with theirs:
                command = [sys.executable, "-m", self._module, str(theirs.fileno())]
                process = subprocess.Popen(
                    ["nice", f"-n{_NICE}", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            self._child = _Running(process, ours)
            ours.send(self._source)
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

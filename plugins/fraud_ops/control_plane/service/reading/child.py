"""A child process that answers questions (see `fraud_rules.runtime.questions`), and restarts if it ends."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from fraud_ops.control_plane.domain.errors import StoreBusy, Unavailable
from fraud_rules.runtime.questions import QuestionFailure

__all__ = ["ReadingChild"]

_ANSWER_S: Final = 15.0
_START_S: Final = 120.0
_TURN_S: Final = 15.0
_NICE: Final = 5


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    connection: Connection
    answered: bool = False

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class ReadingChild:
    """Several threads may use it. The child answers one question at a time."""

    def __init__(self, module: str, source: object, too_slow: str) -> None:
        """`module` runs as the child, with the file descriptor of the connection as argument, and gets `source` first.
        `too_slow` is the message if an answer does not come in time."""
        self._module = module
        self._source = source
        self._too_slow = too_slow
        self._lock = threading.Lock()
        self._child: _Running | None = None

    def ask(self, question: object) -> bytes:
        """Return the answer. Raises StoreBusy if other questions take too long, and Unavailable."""
        if not self._lock.acquire(timeout=_TURN_S):
            raise StoreBusy("other payments are being read: try again")
        try:
            answer = self._answer(question)
        finally:
            self._lock.release()
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
                if not child.connection.poll(_ANSWER_S if child.answered else _START_S):
                    self._end()
                    raise Unavailable(self._too_slow)
                answer = child.connection.recv()
            except (EOFError, OSError):  # the child has ended, for example after a long time without questions
                self._end()
                if attempt:
                    raise Unavailable("the process that reads payments has ended: see the API server's log") from None
                continue
            child.answered = True
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

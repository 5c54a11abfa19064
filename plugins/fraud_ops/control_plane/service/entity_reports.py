"""Asks the child process that reads and evaluates the payments of an entity, and restarts it if it ends."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from fraud_ops.control_plane.domain.errors import Invalid, StoreBusy, Unavailable
from fraud_rules.batch.entity.rows import EntityQuery
from fraud_rules.batch.entity.server import EntityFailure, EntityQuestion, EntitySource
from fraud_rules.errors import Reason
from fraud_rules.model.schema import ID_FIELD, FieldType

__all__ = ["EntityReporter"]

_DAY_MS: Final = 86_400_000
_ANSWER_S: Final = 15.0
_START_S: Final = 120.0
_TURN_S: Final = 15.0
_NICE: Final = 5
_ID_TYPES: Final = (FieldType.LONG, FieldType.STRING)
_INT64: Final = 2**63

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    connection: Connection
    answered: bool = False

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class EntityReporter:
    """Several threads may use it. The child answers one question at a time."""

    def __init__(self, source: EntitySource, clock_ms: Callable[[], int]) -> None:
        self._source = source
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def report(self, field: str, text: str, days: int) -> bytes:
        """Read the report about a value of a field over the last days, as the JSON of an `EntityReport`.

        Raises Invalid for a field that holds no ids, StoreBusy if other questions take too long, Unavailable.
        """
        now_ms = self._clock_ms()
        query = EntityQuery(field, self._value(field, text), now_ms - days * _DAY_MS)
        if not self._lock.acquire(timeout=_TURN_S):
            raise StoreBusy("other entities are being read: try again")
        try:
            return self._ask(EntityQuestion(query, now_ms))
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the child. It may be in the middle of an answer."""
        child = self._child
        if child is not None:
            child.process.kill()

    def _value(self, field: str, text: str) -> int | str:
        declared = self._source.schema.field(field)
        if declared is None or declared.name != field or declared.type not in _ID_TYPES or field == ID_FIELD:
            raise Invalid([Reason("field", "must be a field of payments with ids, such as the payer")])
        if declared.type is FieldType.STRING:
            return text
        try:
            value = int(text)
        except ValueError:
            value = _INT64
        if not -_INT64 <= value < _INT64:
            raise Invalid([Reason("value", f"must be a whole number, because {field} is one")])
        return value

    def _ask(self, question: EntityQuestion) -> bytes:
        for attempt in range(2):
            child = self._running()
            try:
                child.connection.send(question)
                if not child.connection.poll(_ANSWER_S if child.answered else _START_S):
                    self._end()
                    raise Unavailable("the payments could not be read in time: choose fewer days")
                answer = child.connection.recv()
            except (EOFError, OSError):  # the child has ended, for example after a long time without questions
                self._end()
                if attempt:
                    raise Unavailable("the process that reads payments has ended: see the API server's log") from None
                continue
            child.answered = True
            if isinstance(answer, EntityFailure):
                raise Unavailable(answer.reason)
            return bytes(answer)
        raise AssertionError("the second attempt returns or raises")

    def _running(self) -> _Child:
        if self._child is None:
            ours, theirs = multiprocessing.Pipe()
            with theirs:
                command = [sys.executable, "-m", "fraud_rules.batch.entity", str(theirs.fileno())]
                process = subprocess.Popen(
                    ["nice", f"-n{_NICE}", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            self._child = _Child(process, ours)
            ours.send(self._source)
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

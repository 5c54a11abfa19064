"""A child process that answers questions on a connection.

A process that serves others, such as an API server, starts such a child for work that would hold Python's interpreter
lock for too long. The parent sends a source once, and then questions. Each answer is the bytes of a document, or a
`QuestionFailure`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from fraud_rules.errors import FraudError

__all__ = ["QuestionFailure", "answer_questions"]

_IDLE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class QuestionFailure:
    """The reason why there is no answer."""

    reason: str


def answer_questions(connection: Connection, open_source: Callable[[Any], Callable[[Any], bytes]]) -> None:
    """Answer questions until the parent closes the connection, or sends none for ten minutes.

    `open_source` receives the source, and returns the function that answers a question. The parent learns the message
    of a FraudError.
    """
    answer = open_source(connection.recv())
    # A full collection would visit all objects of the loaded libraries: 0.2 s within an answer.
    gc.collect()
    gc.freeze()
    while connection.poll(_IDLE_S):
        try:
            question = connection.recv()
        except EOFError:
            return
        try:
            connection.send(answer(question))
        except FraudError as error:
            connection.send(QuestionFailure(" ".join(str(error).split())))

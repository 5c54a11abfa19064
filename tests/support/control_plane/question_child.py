"""A child that answers questions in the way that each question names: `python -m ...question_child FD`."""

from __future__ import annotations

import os
import sys
import time
from multiprocessing.connection import Connection

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.runtime.questions import answer_questions

__all__ = ["answer"]


def answer(question: tuple[str, float]) -> bytes:
    """Answer with the process id: after this CPU time (`work`) or time (`sleep`), or not at all (`fail`, `end`)."""
    kind, seconds = question
    match kind:
        case "work":
            until_s = time.process_time() + seconds
            while time.process_time() < until_s:
                pass
        case "sleep":
            time.sleep(seconds)
        case "fail":
            raise BrokerUnavailable("no broker")
        case "end":
            os._exit(1)
    return str(os.getpid()).encode()


if __name__ == "__main__":
    answer_questions(Connection(int(sys.argv[1])), lambda _: answer)

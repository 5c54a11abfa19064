"""The entry point of the child process, see `server`."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from fraud_rules.batch.entity.server import open_source
from fraud_rules.runtime.questions import answer_questions

if __name__ == "__main__":
    answer_questions(Connection(int(sys.argv[1])), open_source)

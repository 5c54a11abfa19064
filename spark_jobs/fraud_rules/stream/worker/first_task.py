"""The first task of an executor. Before it runs, Spark starts the executor's Python daemon, see `daemon`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fraud_rules.errors import DetectorFailed, ReleaseInvalid
from fraud_rules.stream.worker.context import check_code

_OPTION: Final = b"--executor-id"


@dataclass(frozen=True, slots=True)
class FirstTask:
    """Checks the code of an executor's host. `code` is the digest of the driver's code."""

    code: str

    def run(self, elements: Iterable[int]) -> Iterator[tuple[str, str]]:
        """The number of this executor, and the fault of its code, empty if it is the driver's code."""
        deque(elements, maxlen=0)  # Spark ends a worker that leaves its input unread
        fault = ""
        try:
            check_code(self.code)
        except ReleaseInvalid as error:
            fault = str(error)
        yield executor_number(os.getpid()), fault


def executor_number(process: int) -> str:
    """Spark's number of the executor to which a process belongs. A Python task has no other access to it than the
    arguments of the executor's JVM, an ancestor of the process. Raises DetectorFailed without such an ancestor."""
    while process > 1:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if _OPTION in words:
            return words[words.index(_OPTION) + 1].decode()
        process = int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    raise DetectorFailed(
        "this Python worker is no descendant of an executor of Spark: this is a defect, please report it"
    )

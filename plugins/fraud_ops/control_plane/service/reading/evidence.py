"""Reads the evidence of alerts in a child process: `python -m fraud_ops.control_plane.service.reading.evidence FD`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

import msgspec

from fraud_ops.control_plane.service.reading.child import ReadingChild
from fraud_ops.control_plane.service.reading.evidence_search import EvidenceSearch, EvidenceSource
from fraud_rules.runtime.questions import answer_questions

__all__ = ["EvidenceReader"]

_encode = msgspec.json.Encoder(decimal_format="number").encode


class EvidenceReader:
    """Asks the child process. Several threads may use it."""

    def __init__(self, source: EvidenceSource) -> None:
        self._child = ReadingChild(__name__, source, "the topic could not be read in time: try again")

    def read(self, alert: bytes) -> bytes:
        """Read the evidence of an alert from its published JSON, as the JSON of an `Evidence`.

        Raises Unavailable.
        """
        return self._child.ask(alert)

    def close(self) -> None:
        """End the child. It may be in the middle of an answer."""
        self._child.close()


def _open(source: EvidenceSource) -> Callable[[bytes], bytes]:
    search = EvidenceSearch(source)
    return lambda alert: _encode(search.find(alert).model_dump(by_alias=True))


if __name__ == "__main__":
    answer_questions(Connection(int(sys.argv[1])), _open)

"""Reads the evidence of alerts in a process of the pool."""

from __future__ import annotations

import msgspec

from fraud_control.service.reading.evidence_search import EvidenceSearch, EvidenceSource
from fraud_control.service.reading.pool import ReadingPool

_encode = msgspec.json.Encoder(decimal_format="number").encode


class EvidenceReader:
    """Reads from the topic of a source. Several threads may use it."""

    def __init__(self, pool: ReadingPool, source: EvidenceSource) -> None:
        self._pool = pool
        self._source = source

    def read(self, alert: bytes) -> bytes:
        """Read the evidence of an alert from its published JSON, as the JSON of an `Evidence`.

        Raises Unavailable.
        """
        return self._pool.ask(_find, self._source, alert, "the topic could not be read in time: try again")


def _find(source: EvidenceSource, alert: bytes) -> bytes:
    return _encode(EvidenceSearch(source).find(alert).model_dump(by_alias=True))

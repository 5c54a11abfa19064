"""The corpus of accepted and rejected transaction records, `corpus/transactions.json`, as bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fraud_rules.codec.transactions.raw import Headers, RawTransactions
from tests.support.places import CORPUS

_CORPUS = CORPUS / "transactions.json"
_DOCUMENT = json.loads(_CORPUS.read_text(encoding="utf-8"))

APPEND_MS: int = _DOCUMENT["appendMs"]
FUTURE_TOLERANCE_MS: int = _DOCUMENT["futureToleranceMs"]


@dataclass(frozen=True, slots=True)
class AcceptedCase:
    """An accepted record and its values by field: decimals as text at their scale, timestamps in ms, nulls omitted."""

    name: str
    record: bytes
    values: dict[str, int | str]


@dataclass(frozen=True, slots=True)
class RejectedCase:
    """A rejected record and the reason for its rejection."""

    name: str
    record: bytes
    reason: str


def raw_records(
    *values: bytes | None,
    append_ms: int = APPEND_MS,
    topic: str | None = None,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
) -> RawTransactions:
    """Undecoded records of one partition that have arrived at the same time."""
    n = len(values)
    return RawTransactions.of(values, [0] * n, range(n), [append_ms] * n, topic, keys, headers)


def _bytes(record: Any) -> bytes:
    if isinstance(record, list):
        return b"".join(map(_bytes, record))
    if isinstance(record, str):
        return record.encode()
    return bytes.fromhex(record["hex"]) if "hex" in record else record["text"].encode() * record["times"]


ACCEPTED = tuple(AcceptedCase(case["name"], _bytes(case["record"]), case["values"]) for case in _DOCUMENT["accepted"])
REJECTED = tuple(RejectedCase(case["name"], _bytes(case["record"]), case["reason"]) for case in _DOCUMENT["rejected"])

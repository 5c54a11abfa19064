"""Decodes records of other programs. A reader skips a record that it cannot decode, reports it, and continues."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from prometheus_client import Counter

from fraud_rules.kafka.reader import Record

UNDECODABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError, ArithmeticError, KeyError, TypeError)
"""The errors with which a decoder rejects an unreadable record. Any other error is a fault of this product."""

UNREADABLE_RECORDS: Final = Counter(
    "fraud_unreadable_records",
    "Records that this process skipped because it cannot use them",
    ["topic"],
    registry=None,
)
"""Counts each record once, however often the process reads it. Each registry that is served registers it."""

_REASON_CHARS: Final = 200
_REMEMBERED: Final = 100_000

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class _Reported:
    """The positions (topic, partition, offset) of the records that were reported last."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, place: tuple[str, int, int]) -> bool:
        """Add a position. Return False if it is known."""
        with self._lock:
            if place in self._places:
                return False
            self._places[place] = None
            if len(self._places) > _REMEMBERED:
                self._places.popitem(last=False)
            return True


_reported = _Reported()


def decode_or_skip(topic: str, record: Record, decode: Callable[[bytes], _T], partition: int = 0) -> _T | None:
    """The value of a record; None for a record that `decode` cannot read, which is logged and counted.

    A tombstone is unreadable too. A reader of a topic where a tombstone has a meaning looks at `record.value` first.
    """
    if record.value is None:
        skip(topic, record, "no value", partition)
        return None
    try:
        return decode(record.value)
    except UNDECODABLE as error:
        skip(topic, record, decode_reason(error), partition)
        return None


def skipped_by_topic() -> dict[str, int]:
    """How many records this process has skipped, by topic."""
    samples = (sample for metric in UNREADABLE_RECORDS.collect() for sample in metric.samples)
    return {each.labels["topic"]: int(each.value) for each in samples if each.name.endswith("_total")}


def decode_reason(error: Exception) -> str:
    """Why a record is unreadable, as printable ASCII on one line of bounded length."""
    text = str(error)[: 2 * _REASON_CHARS]
    return ascii(f"{type(error).__name__}: {' '.join(text.split())}")[1:-1][:_REASON_CHARS]


def skip(topic: str, record: Record, reason: str, partition: int = 0) -> None:
    """Report a record that a reader skips; once for each record of the process."""
    if _reported.add((topic, partition, record.offset)):
        UNREADABLE_RECORDS.labels(topic).inc()
        _log.warning("%s-%d: the record at offset %d is skipped: %s", topic, partition, record.offset, reason)

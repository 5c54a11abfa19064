"""Undecoded records of the topic of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fraud_rules.model.declared.field_source import FieldSource, Origin

__all__ = ["TRACE_HEADERS", "Headers", "RawTransactions"]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record, in order. A name may occur more than once."""

TRACE_HEADERS: Final = frozenset({"traceparent", "tracestate", "correlation-id", "x-correlation-id"})
"""The headers that name the trace of a payment: those of W3C Trace Context, and the usual ones for a correlation id."""


@dataclass(frozen=True, slots=True)
class RawTransactions:
    """n undecoded records, one element per record. `partition`, `offset` and `append_ms` are int32, int64 and int64[n].

    `topic`, `keys` and `headers` are needed only for a schema with a field that comes from them.
    """

    values: Sequence[bytes | None]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    append_ms: NDArray[np.int64]
    topic: str | None = None
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Headers] | None = None

    @classmethod
    def of(
        cls,
        values: Sequence[bytes | None],
        partition: ArrayLike,
        offset: ArrayLike,
        append_ms: ArrayLike,
        topic: str | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> RawTransactions:
        """Records with any arrays of integers."""
        places = np.asarray(partition, np.int32), np.asarray(offset, np.int64), np.asarray(append_ms, np.int64)
        return cls(values, *places, topic, keys, headers)

    def cells(self, source: FieldSource, at: Sequence[int]) -> list[bytes | None]:
        """The texts of a field beside the value in the records at these positions; None where a record has none.

        Raises ValueError if the reader of these records has not read the part that holds it.
        """
        keys, headers = self.keys, self.headers
        match source.origin:
            case Origin.KEY if keys is not None:
                return [keys[i] for i in at]
            case Origin.HEADER if headers is not None:
                return [_last(headers[i], source.header) for i in at]
            case Origin.TOPIC if self.topic is not None:
                return [self.topic.encode()] * len(at)
        raise ValueError(f"these records were read without their {source.origin}")


def _last(headers: Headers, name: str) -> bytes | None:
    for found, value in reversed(headers):
        if found == name:
            return value
    return None

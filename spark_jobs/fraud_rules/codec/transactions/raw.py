"""Undecoded records of the topic of transactions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fraud_rules.model.declared.field_source import FieldSource, Origin

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record, in order. A name may occur more than once."""

MAX_TRACE_BYTES: Final = 1_024
"""The most bytes of a header of a trace. W3C Trace Context asks for 512."""

_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_NAMES: Final = frozenset({_PARENT, _STATE, "correlation-id", "x-correlation-id"})
"""The headers that name the trace of a payment: those of W3C Trace Context, and the usual ones for a correlation id."""

_VALID_PARENT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, section 3.2: version, trace id, parent id and flags."""


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


def trace_headers(headers: Headers) -> Mapping[str, bytes]:
    """The headers that name the trace of a payment, the last one of each name. A longer one than `MAX_TRACE_BYTES`
    would make an alert too large to write, and no tracer continues an invalid `traceparent`: both count as absent. A
    `tracestate` has no meaning without a `traceparent`.
    """
    found = {name: value or b"" for name, value in headers if name in _NAMES}
    own = {name: value for name, value in found.items() if len(value) <= MAX_TRACE_BYTES}
    if not _VALID_PARENT.fullmatch(own.get(_PARENT, b"")):
        own.pop(_PARENT, None)
        own.pop(_STATE, None)
    return own

"""What travels between the two Python stages and the driver: rows of a small integer and a blob.

Rows of key groups carry packed transactions to the stateful stage and its output from there. Rows under `ASIDE` pass
through: what the fan-out found about its part of the batch, and the records that go to quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

ROW_SCHEMA = "key_group int, blob binary"
KEYED_SCHEMA = "key_group int, lane int, blob binary"
"""Rows on their way to the stateful stage: see `lanes`."""

ASIDE = -1

_QUANTILES = np.linspace(0.0, 1.0, 101)


class Refused(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A record for quarantine, as it came."""

    partition: int
    offset: int
    append_ms: int
    reason: str
    detail: str
    raw: bytes


class Aside(msgspec.Struct, array_like=True, frozen=True):
    """A fan-out task's account: rows accepted, tombstones ignored, append times at 101 quantiles, records refused,
    event times at 101 quantiles, the sum of the append times."""

    rows: int = 0
    ignored: int = 0
    append_quantiles_ms: tuple[int, ...] = ()
    refused: tuple[Refused, ...] = ()
    event_quantiles_ms: tuple[int, ...] = ()
    append_total_ms: int = 0

    def encode(self) -> bytes:
        """The account as bytes; `decode` gives it back."""
        return _encode(self)

    @staticmethod
    def decode(blob: bytes) -> Aside:
        """What `encode` made."""
        return _decode(blob)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Aside).decode


def quantiles_ms(times_ms: NDArray[np.int64]) -> tuple[int, ...]:
    """The 0th to 100th percentile of times; empty for none."""
    if not len(times_ms):
        return ()
    return tuple(np.quantile(times_ms, _QUANTILES, method="nearest").astype(np.int64).tolist())


def merged_quantile_ms(tasks: Iterable[tuple[int, tuple[int, ...]]], q: float) -> int | None:
    """The q-quantile of times over all tasks, from each task's number of rows and its own quantiles."""
    parts = [(rows, times_ms) for rows, times_ms in tasks if times_ms]
    if not parts:
        return None
    times = np.concatenate([np.array(times_ms, np.int64) for _, times_ms in parts])
    weights = np.concatenate([np.full(len(times_ms), rows) for rows, times_ms in parts])
    order = np.argsort(times)
    reached = np.cumsum(weights[order])
    return int(times[order][np.searchsorted(reached, q * reached[-1])])

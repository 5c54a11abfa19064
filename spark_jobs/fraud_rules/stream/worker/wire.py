"""The wire format between the two Python stages and the driver. Each row has a number and a blob.

The number is a key group. Its rows carry packed transactions to the stateful stage, and the outputs of that stage to
the driver. Rows with the number `SIDE_OUTPUT` carry the side outputs of the fan-out tasks through the stateful stage.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

ROW_SCHEMA = "key_group int, blob binary"
KEYED_SCHEMA = "key_group int, lane int, blob binary"
"""Rows for the stateful stage. `lane` is the salt: checkpoints have this column name in the schema of their state."""

SIDE_OUTPUT = -1

_QUANTILES = np.linspace(0.0, 1.0, 101)


class RefusedRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A rejected transaction for `quarantine`: its unchanged bytes, its place, and the reason."""

    partition: int
    offset: int
    append_ms: int
    reason: str
    detail: str
    raw: bytes


class SideOutput(msgspec.Struct, array_like=True, frozen=True):
    """The side output of a fan-out task.

    `rows` counts the accepted transactions, `ignored` the tombstones. The quantiles are the 0th to 100th percentiles.
    `append_total_ms` is the sum of the append times.
    """

    rows: int = 0
    ignored: int = 0
    append_quantiles_ms: tuple[int, ...] = ()
    refused: tuple[RefusedRecord, ...] = ()
    event_quantiles_ms: tuple[int, ...] = ()
    append_total_ms: int = 0

    def encode(self) -> bytes:
        """Encode for `decode`."""
        return _encode(self)

    @staticmethod
    def decode(blob: bytes) -> SideOutput:
        """Decode the result of `encode`."""
        return _decode(blob)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SideOutput).decode


def quantiles_ms(times_ms: NDArray[np.int64]) -> tuple[int, ...]:
    """The 0th to 100th percentiles of times. Empty without times."""
    if not len(times_ms):
        return ()
    return tuple(np.quantile(times_ms, _QUANTILES, method="nearest").astype(np.int64).tolist())


def merged_quantile_ms(tasks: Iterable[tuple[int, tuple[int, ...]]], q: float) -> int | None:
    """The q-quantile of times over all tasks, from each task's number of rows and quantiles."""
    parts = [(rows, times_ms) for rows, times_ms in tasks if times_ms]
    if not parts:
        return None
    times = np.concatenate([np.array(times_ms, np.int64) for _, times_ms in parts])
    weights = np.concatenate([np.full(len(times_ms), rows) for rows, times_ms in parts])
    order = np.argsort(times)
    reached = np.cumsum(weights[order])
    return int(times[order][np.searchsorted(reached, q * reached[-1])])

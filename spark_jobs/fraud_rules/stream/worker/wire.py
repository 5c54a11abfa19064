"""The wire format between the Python stages and the driver. Each row has a number and a blob.

The number is a key group. Its rows carry packed transactions to the engine, and the outputs and the state delta of the
engine to the driver. Rows with the number `SIDE_OUTPUT` carry the side outputs of the fan-out to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.output import Packed
from fraud_rules.runtime.compression import decompress

SIDE_OUTPUT = -1

_HEADER_BYTES: Final = 32
"""The most bytes of a header in a record beside its name and its value."""

_IN_ROW: Final = b"\x00"
_SENT: Final = b"\x01"

_QUANTILES = np.linspace(0.0, 1.0, 101)


class OutputRow(NamedTuple):
    """A row for the driver. `state` is the encoded `StateDelta`, None if the key group's state has not changed."""

    key_group: int
    blob: bytes
    state: bytes | None = None


class TaskRow(NamedTuple):
    """A row for a task of a large batch: packed transactions of a key group, or its packed marks (see `BatchOrder`)."""

    key_group: int
    blob: bytes | None
    marks: bytes | None = None


class ReplyPart(Packed, array_like=True, frozen=True):
    """A part of the evaluator's reply to a request, in the order of the rows."""

    rows: list[OutputRow]
    is_last: bool


def in_row(compressed: bytes) -> bytes:
    """The blob of a row that holds a compressed output."""
    return _IN_ROW + compressed


def sent(name: str) -> bytes:
    """The blob of a row whose output went to the driver under this name."""
    return _SENT + name.encode()


def unpack(blob: bytes, sent_output: Callable[[str], bytes]) -> bytes:
    """The output of a row. `sent_output` returns the compressed output that a task has sent under a name."""
    kind, rest = blob[:1], blob[1:]
    return decompress(rest if kind == _IN_ROW else sent_output(rest.decode()))


class UnreadableRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A rejected transaction for `quarantine`: its unchanged bytes, its place, and the reason. It has its key and its
    headers if the schema reads them."""

    partition: int
    offset: int
    append_ms: int
    reason: str
    detail: str
    raw: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size(self) -> int:
        """The bytes of the value, the key and the headers, at most."""
        headers = sum(_HEADER_BYTES + len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.raw) + len(self.key or b"") + headers


class Trace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The headers of a transaction's trace, and its place."""

    partition: int
    offset: int
    headers: tuple[tuple[str, bytes], ...]


class SideOutput(Packed, array_like=True, frozen=True):
    """The side output of a fan-out task.

    `rows` counts the accepted transactions, `ignored` the tombstones. The quantiles are the 0th to 100th percentiles.
    `append_total_ms` is the sum of the append times. `null_keys` counts the transactions with a null in a field of a
    grouping in force. `traces` has the transactions with a trace, if the settings request them. `nulls` and `texts` are
    those of `field_figures`.
    """

    rows: int = 0
    ignored: int = 0
    append_quantiles_ms: tuple[int, ...] = ()
    rejected: tuple[UnreadableRecord, ...] = ()
    event_quantiles_ms: tuple[int, ...] = ()
    append_total_ms: int = 0
    null_keys: int = 0
    traces: tuple[Trace, ...] = ()
    nulls: dict[str, int] = msgspec.field(default_factory=dict)
    texts: dict[str, dict[str, int] | None] = msgspec.field(default_factory=dict)


def quantiles_ms(times_ms: NDArray[np.int64]) -> tuple[int, ...]:
    """The 0th to 100th percentiles of times. Empty without times."""
    if not len(times_ms):
        return ()
    nearest = np.rint(_QUANTILES * (len(times_ms) - 1)).astype(np.int64)
    return tuple(np.sort(times_ms)[nearest].tolist())


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

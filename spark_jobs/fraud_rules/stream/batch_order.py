"""The order of a batch: what the driver tells the tasks that evaluate the batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from fraud_rules.engine.statelog import StateVersion
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.pins import Pin


class TaskState(NamedTuple):
    """A key group's state at the start of a batch: its version, and an offset of its partition.

    `end` is the offset after the last record that the driver knew to be written. All records of later versions have
    this offset or a later one. `sweeps` tells the task to delete the orphans after this offset, which the batches of an
    earlier start have left.
    """

    version: StateVersion
    end: int
    sweeps: bool = False


class BatchOrder(msgspec.Struct, frozen=True):
    """The pin of the batch, the state at its start, and its records.

    `versions` and `ends` are those of the `StatePosition`, `unswept` the key groups to sweep. `ranges` has the offsets
    [start, end) of the topic `transactions` by partition. `visits_all` means that the batch passes over all key groups,
    also those without transactions. `marks` are those that the conclusions of the batch before have changed, packed by
    key group. The tasks of a large batch get them with their rows, and their order has none.
    """

    pin: Pin
    versions: list[StateVersion] = []
    ends: list[int] = []
    unswept: list[int] = []
    ranges: dict[int, tuple[int, int]] = {}
    visits_all: bool = False
    marks: dict[int, bytes] = {}

    def task_state(self, key_group: int) -> TaskState:
        """The state of a key group at the start of the batch."""
        end = self.ends[key_group % len(self.ends)]
        return TaskState(self.versions[key_group], end, key_group in self.unswept)

    def encode(self) -> bytes:
        """Encode for `decode`."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decode(encoded: bytes) -> BatchOrder:
        """Decode the result of `encode`."""
        return _decode(encoded)


def pack_marks(marks: Iterable[MarkUpdate]) -> dict[int, bytes]:
    """Pack marks by key group for `unpack_marks`, because a task needs those of its key groups only."""
    by_group: dict[int, list[MarkUpdate]] = {}
    for mark in marks:
        by_group.setdefault(mark.key_group, []).append(mark)
    return {key_group: _encode(own) for key_group, own in sorted(by_group.items())}


def unpack_marks(packed: bytes | None) -> list[MarkUpdate]:
    """The marks of a key group, none for None."""
    return [] if packed is None else _decode_marks(packed)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(BatchOrder).decode
_decode_marks: Final = msgspec.msgpack.Decoder(list[MarkUpdate]).decode

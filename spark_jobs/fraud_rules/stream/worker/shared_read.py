"""Reads the logs of several key groups from the topic `detector-state`, and each partition once.

A read of a whole log passes the records of all key groups of its partition. Those of the task's other key groups are
kept in files until their turn. The files have no names, so they end with the process.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Final, Self

from fraud_rules.engine.state.arrays import named_full_disk
from fraud_rules.logs.state_topic import OnBytes, StateRecord, StateTopic

_HEADER: Final = struct.Struct("<qHi")
"""The offset, the length of the name, and the length of the value; -1 for a deletion."""


class _Kept:
    """The records of one key group in a file, and the offset up to which the partition is read."""

    def __init__(self, folder: Path, key_group: int) -> None:
        self._folder = folder
        self._key_group = key_group
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it
        self.end = 0

    def add(self, record: StateRecord) -> None:
        """Keep a record. Raises StorageFull."""
        name, value = record.name.encode(), record.value or b""
        header = _HEADER.pack(record.offset, len(name), -1 if record.value is None else len(value))
        with named_full_disk(self._folder, len(value)):
            self._file.write(b"".join((header, name, value)))

    def records(self) -> Iterator[StateRecord]:
        """The kept records."""
        with named_full_disk(self._folder, 0):
            self._file.seek(0)
        while header := self._file.read(_HEADER.size):
            offset, name_bytes, value_bytes = _HEADER.unpack(header)
            name = self._file.read(name_bytes).decode()
            value = None if value_bytes < 0 else self._file.read(value_bytes)
            yield StateRecord(offset, self._key_group, name, value)

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError):  # a full disk
            self._file.close()


class SharedRead:
    """The reads of one task, which evaluates these key groups. `folder` returns a folder on the disk of the views."""

    def __init__(self, topic: StateTopic, key_groups: Collection[int], folder: Callable[[], Path]) -> None:
        self._topic = topic
        self._waiting = set(key_groups)
        self._folder = folder
        self._kept: dict[int, _Kept] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()

    def read(self, key_group: int, start: int, on_bytes: OnBytes) -> dict[str, bytes]:
        """See `StateTopic.read`. Raises StorageFull too."""
        self._waiting.discard(key_group)
        if start:
            return self._topic.read(key_group, start, on_bytes)
        kept = self._kept.pop(key_group, None)
        if kept is None:
            return self._topic.contents(self._own(key_group, on_bytes))
        try:
            later = self._topic.records(self._topic.partition_of(key_group), kept.end, on_bytes)
            return self._topic.contents(chain(kept.records(), (each for each in later if each.key_group == key_group)))
        finally:
            kept.close()

    def _own(self, key_group: int, on_bytes: OnBytes) -> Iterator[StateRecord]:
        """The records of a key group. Those of the key groups that wait are kept."""
        partition = self._topic.partition_of(key_group)
        others = {
            each: _Kept(self._folder(), each)
            for each in self._waiting - self._kept.keys()
            if self._topic.partition_of(each) == partition
        }
        self._kept |= others
        end = 0
        try:
            for record in self._topic.records(partition, 0, on_bytes):
                if record.key_group == key_group:
                    yield record
                elif record.key_group in others:
                    others[record.key_group].add(record)
                end = record.offset + 1
        finally:
            for kept in others.values():
                kept.end = end

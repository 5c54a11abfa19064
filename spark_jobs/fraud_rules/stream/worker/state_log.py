"""One batch's access to a key group's log, whose durable copy is in the topic `detector-state`.

The driver tells a task the version at which the batch starts. The task finds the head and the chunks of that version in
this host's files. If the files lack some of them, the task reads the topic from the offset up to which the files are
complete. It returns its changes as a `StateDelta`, and the driver writes them in the batch's Kafka transaction. So a
task that is repeated, speculative or left over from a killed detector changes nothing but its host's files: these do
not match the version that the next task starts with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import EMPTY_LOG, StateVersion, is_content_of, is_prepared
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.errors import Fenced, StateDamaged
from fraud_rules.logs.state_topic import HEAD, OnBytes, StateTopic
from fraud_rules.model.output import Packed
from fraud_rules.runtime.compression import compress
from fraud_rules.runtime.retry import wait_for
from fraud_rules.stream.batch_order import TaskState
from fraud_rules.stream.worker.host_files import HostFiles, head_name

LARGE_BYTES: Final = 65_536
"""The compressed size from which a task writes a chunk itself."""

_REMEDY: Final = "restore the topic, or rebuild the state (fraud detector rebuild)"
_WAIT_S: Final = 30.0
_SLOW_S: Final = 60.0
"""The age of a task from which it may have been suspended while its batch was repeated."""
_POLL_S: Final = 0.2
_SWEEP_EVERY: Final = 16


ReadLog: TypeAlias = Callable[[int, int, OnBytes], dict[str, bytes]]
"""Reads a key group's log from an offset of its partition on."""


class StateDelta(Packed, array_like=True, frozen=True):
    """The changes of a key group's log in one batch, as records of the topic.

    `records` has compressed contents by name, None for a deletion, the head last.
    """

    key_group: int
    version: StateVersion
    records: list[tuple[str, bytes | None]]


class _TopicLog(NamedTuple):
    """Records of a key group in the topic, by name, with a head, and the names of the chunks that the head names."""

    records: dict[str, bytes]
    named: frozenset[str]


class TaskStateLog:
    """A `StateLog` at the version at which the batch starts.

    The engine calls it while it holds the key group's view, so one process at a time uses the host's files.
    """

    def __init__(
        self,
        key_group: int,
        start: TaskState,
        files: Callable[[], HostFiles],
        topic: StateTopic,
        progress: TaskProgress = UNREPORTED,
        read: ReadLog | None = None,
    ) -> None:
        """`read` reads the topic, by default as `StateTopic.read` does."""
        self._key_group = key_group
        self._start = start.version
        self._start_end, self._sweeps = start.end, start.sweeps
        self._open_files = files
        self._topic = topic
        self._read = read or topic.read
        self._progress = progress
        self._began_s = time.monotonic()
        self._files_: HostFiles | None = None
        self._read_all = False
        self._head: bytes | None = None
        self._added: dict[str, bytes] = {}
        self._adopted: dict[str, Path] = {}
        self._deleted: set[str] = set()
        self._orphans: set[str] = set()
        self._new: tuple[bytes, StateVersion] | None = None
        self.has_sent = False
        """Whether `delta` has sent chunks to the topic."""

    def head(self) -> bytes | None:
        if self._start != EMPTY_LOG:
            self._head = self._files.head(self._start)
            if self._head is None:
                self._catch_up()
        if self._sweeps:
            self._find_orphans()
        return self._head

    def put_head(self, head: bytes, version: StateVersion) -> None:
        for name, file in self._adopted.items():
            self._files.adopt_chunk(name, file)
        self._files.write(version, head, self._start_end, self._added)
        self._new = head, version
        if self._deleted or version.version % _SWEEP_EVERY == 0:
            self._sweep()

    def chunk(self, name: str) -> bytes:
        if name in self._added:
            return self._added[name]
        if name in self._adopted and self._new is None:
            return self._adopted[name].read_bytes()
        blob = self._files.chunk(name)
        if blob is None and not self._read_all:
            self._restore()
            blob = self._files.chunk(name)
        if blob is None:
            raise StateDamaged(f"{self._topic.topic} has lost chunk {name} of key group {self._key_group}: {_REMEDY}")
        return blob

    def put_chunk(self, name: str, blob: bytes) -> None:
        self._added[name] = blob
        self._deleted.discard(name)

    def adopt_chunk(self, name: str, file: Path) -> None:
        self._adopted[name] = file
        self._deleted.discard(name)

    def delete_chunk(self, name: str) -> None:
        self._added.pop(name, None)
        self._adopted.pop(name, None)
        self._deleted.add(name)

    def delta(self) -> StateDelta | None:
        """The changes of this batch, without the large chunks, which this call sends. None if there is no change.

        The task must flush the topic's chunks before it returns the delta. So the driver's part of a batch does not
        grow with its rows. If the batch fails, the large chunks are orphans, and the first batch of the next start
        deletes them.
        """
        if self._new is None:
            return None
        head, version = self._new
        deleted = self._deleted | (self._orphans - self._added.keys())
        chunks = [(name, compress(blob)) for name, blob in self._added.items()]
        large = [(name, value) for name, value in chunks if len(value) >= LARGE_BYTES]
        if large:
            self._require_current()
            self._topic.send_chunks(self._key_group, large)
            self.has_sent = True
        records: list[tuple[str, bytes | None]] = [(name, value) for name, value in chunks if len(value) < LARGE_BYTES]
        records += [(name, None) for name in sorted(deleted)]
        return StateDelta(self._key_group, version, [*records, (HEAD, compress(head))])

    @property
    def _files(self) -> HostFiles:
        if self._files_ is None:
            self._files_ = self._open_files()
        return self._files_

    def _catch_up(self) -> None:
        """Read the head and the chunks that this host's files lack. Raises StateDamaged."""
        start = self._files.complete_to()
        found = self._read_log(start) if start else None
        if found is None or not self._completes(found):
            self._restore()
        else:
            self._store(found)

    def _require_current(self) -> None:
        """Raise Fenced if the batch of a slow task is written already. A task that was suspended meanwhile must send no
        chunk: the repeated task has deleted it, and nothing would delete it again."""
        if time.monotonic() >= self._began_s + _SLOW_S:
            self._committed(self._start_end)

    def _find_orphans(self) -> None:
        """Find the chunks at the end of the topic that no head names: tasks of an earlier start have written them."""
        records = self._read(self._key_group, self._start_end, self._progress.fetched)
        self._add_orphans(records, _named(self._head))

    def _add_orphans(self, records: Mapping[str, bytes], named: Collection[str]) -> None:
        """Add the chunks that no head names, except prepared ones: the batch that adds a warm-up deletes what it does
        not use."""
        unnamed = records.keys() - {HEAD, *named}
        self._orphans.update(name for name in unnamed if not is_prepared(name))

    def _completes(self, log: _TopicLog) -> bool:
        return all(name in log.records or self._files.has_chunk(name) for name in log.named)

    def _restore(self) -> None:
        """Read the whole log from the topic into this host's files. Raises StateDamaged."""
        found = self._read_log(0)
        if found is None:
            raise self._not_found()
        self._store(found)
        self._read_all = True

    def _store(self, log: _TopicLog) -> None:
        self._add_orphans(log.records, log.named)
        for name in log.named & log.records.keys():
            if not is_content_of(name, log.records[name]):
                raise StateDamaged(
                    f"chunk {name} of key group {self._key_group} has another content in {self._topic.topic}: {_REMEDY}"
                )
        self._head = log.records[HEAD]
        chunks = {name: log.records[name] for name in log.named & log.records.keys()}
        self._files.write(self._start, self._head, self._start_end, chunks)

    def _read_log(self, start: int) -> _TopicLog | None:
        """The records from an offset on, with the head of this version. None if the topic does not have this head.

        The transaction that has written the version may become readable a little later. Raises StateDamaged if it is
        open for too long.
        """
        found = self._committed(start)
        return (
            found
            or wait_for(partial(self._settled, start), within_s=_WAIT_S, every_s=_POLL_S, timed_out=self._not_found)[0]
        )

    def _settled(self, start: int) -> tuple[_TopicLog | None] | None:
        """The result of `_read_log`. None while a transaction is open."""
        is_settled = self._topic.is_settled(self._key_group)
        found = self._committed(start)
        return (found,) if found is not None or is_settled else None

    def _committed(self, start: int) -> _TopicLog | None:
        log = self._read(self._key_group, start, self._progress.fetched)
        if HEAD not in log:
            return None
        try:
            found = decode_head(log[HEAD])
        except msgspec.DecodeError:
            return None  # another program has written a record with the key of a head
        if found.version > self._start.version:
            raise Fenced(
                f"{self._topic.topic} holds version {found.version} of key group {self._key_group}, newer than version "
                f"{self._start.version}, at which this batch starts: another process has taken over"
            )
        if found.state_version != self._start:
            return None
        return _TopicLog(log, _named(log[HEAD]))

    def _not_found(self) -> StateDamaged:
        return StateDamaged(
            f"{self._topic.topic} does not hold version {self._start.version} of key group {self._key_group}, which "
            f"the marker names: {_REMEDY}"
        )

    def _sweep(self) -> None:
        """Delete the files that neither the version before this batch nor the one after it names."""
        assert self._new is not None
        head, version = self._new
        self._files.keep(_named(head) | _named(self._head) | {head_name(version), head_name(self._start)})


def _named(head: bytes | None) -> frozenset[str]:
    """The names of the chunks of a head."""
    return frozenset() if head is None else frozenset(info.name for info in decode_head(head).chunks)

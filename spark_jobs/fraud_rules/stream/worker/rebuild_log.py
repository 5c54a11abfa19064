"""A key group's log during a rebuild: no transaction has written its head yet.

The driver gives a task the head with which a segment begins. The task sends all new chunks to the topic
`detector-state` itself, so that a task on any host finds them. No head in the topic names these chunks before the
rebuild's transaction: the chunks of a rebuild that died are orphans.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import StateVersion, is_content_of
from fraud_rules.errors import StateDamaged
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.worker.host_files import HostFiles, head_name


class RebuildLog:
    """A `StateLog` from the head of the previous segment on. The engine may evaluate several parts with it."""

    def __init__(
        self,
        key_group: int,
        head: bytes | None,
        files: Callable[[], HostFiles],
        topic: StateTopic,
        complete_to: int,
    ) -> None:
        """`head` is None for an empty log. All chunks of the rebuild have the offset `complete_to` of the topic or a
        later one. `files` is called while the engine holds the key group's view."""
        self._key_group = key_group
        self._head = head
        self._open_files = files
        self._topic = topic
        self._complete_to = complete_to
        self._first = _named(head)
        self._read: dict[str, bytes] = {}
        self._added: dict[str, bytes] = {}
        self._unwritten: dict[str, bytes] = {}

    def head(self) -> bytes | None:
        return self._head

    def put_head(self, head: bytes, version: StateVersion) -> None:
        files = self._open_files()
        files.write(version, head, self._complete_to, self._unwritten)
        self._unwritten = {}
        self._head = head
        files.keep(self._first | _named(head) | {head_name(version)})

    def chunk(self, name: str) -> bytes:
        blob = self._added.get(name) or self._open_files().chunk(name)
        if blob is None:
            if not self._read:
                self._read = self._topic.read(self._key_group, self._complete_to)
            blob = self._read.get(name)
        if blob is None or not is_content_of(name, blob):
            raise StateDamaged(
                f"{self._topic.topic} lacks chunk {name} of key group {self._key_group} during the rebuild: repeat it"
            )
        return blob

    def put_chunk(self, name: str, blob: bytes) -> None:
        self._added[name] = self._unwritten[name] = blob

    def adopt_chunk(self, name: str, file: Path) -> None:
        self.put_chunk(name, file.read_bytes())

    def delete_chunk(self, name: str) -> None:
        """Forget a chunk. The rebuild's transaction deletes all chunks that no head names."""
        self._added.pop(name, None)

    def send(self) -> None:
        """Begin to write the new chunks to the topic. `StateTopic.flush_chunks` waits for them."""
        self._topic.send_chunks(self._key_group, [(name, compress(blob)) for name, blob in self._added.items()])


def _named(head: bytes | None) -> frozenset[str]:
    """The names of a head's chunks."""
    return frozenset() if head is None else frozenset(info.name for info in decode_head(head).chunks)

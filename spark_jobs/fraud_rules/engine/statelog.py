"""A key group's durable log: the interface between the engine and the store of its state.

The state of a key group is an append-only log of chunks (the accepted rows of each batch, merged as they age) and a
small head. The detector stores it in the topic `detector-state`, replays and tests store it in memory.

A chunk's name contains the digest of its content, so a name never means two contents: a repeated task writes the same
chunk under the same name, and a task that another one has superseded cannot replace a chunk.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec


class StateVersion(NamedTuple):
    """The version of a key group's log and the digest of the log up to it. They identify the content of the log."""

    version: int
    digest: int


EMPTY_LOG: Final = StateVersion(0, 0)
"""The version of a log without batches."""


FIRST_PREPARED: Final = 1 << 40
"""The number from which a name is that of a prepared chunk. No log reaches this version."""


def chunk_name(number: int, blob: bytes) -> str:
    """The name of a chunk. `number` is the log's version at which the chunk's first rows were added. A prepared chunk
    is written before the version that adds it, so it has the id of its grouping state instead."""
    return f"{number}-{hashlib.blake2b(blob, digest_size=12).hexdigest()}"


def is_prepared(name: str) -> bool:
    """Whether a chunk with this name was written before the batch that adds it."""
    return int(name.partition("-")[0]) >= FIRST_PREPARED


def is_content_of(name: str, blob: bytes) -> bool:
    """Whether a chunk with this name has this content."""
    return chunk_name(int(name.partition("-")[0]), blob) == name


class StateLog(Protocol):
    """Chunks by name, and a head. All changes of a batch become durable together or not at all.

    The engine changes the chunks first and replaces the head last, while it holds the key group's view.
    """

    def head(self) -> bytes | None:
        """The head; None for an empty log."""

    def put_head(self, head: bytes, version: StateVersion) -> None:
        """Replace the head."""

    def chunk(self, name: str) -> bytes:
        """The chunk with this name, which must exist."""

    def put_chunk(self, name: str, blob: bytes) -> None:
        """Add a chunk."""

    def adopt_chunk(self, name: str, file: Path) -> None:
        """Add a chunk that the durable store has already. `file` has its content, and the log may move the file."""

    def delete_chunk(self, name: str) -> None:
        """Remove a chunk, if there is one with this name."""


class MemoryStateLog:
    """A state log in memory."""

    def __init__(self) -> None:
        self._head: bytes | None = None
        self._chunks: dict[str, bytes] = {}

    def head(self) -> bytes | None:
        return self._head

    def put_head(self, head: bytes, version: StateVersion) -> None:
        self._head = head

    def chunk(self, name: str) -> bytes:
        return self._chunks[name]

    def put_chunk(self, name: str, blob: bytes) -> None:
        self._chunks[name] = blob

    def adopt_chunk(self, name: str, file: Path) -> None:
        self._chunks[name] = file.read_bytes()

    def delete_chunk(self, name: str) -> None:
        self._chunks.pop(name, None)

    def image(self) -> bytes | None:
        """The whole log as bytes for `restore_image`; None for an empty log."""
        return None if self._head is None else msgspec.msgpack.encode(_Image(self._head, self._chunks))


class _Image(msgspec.Struct, array_like=True):
    head: bytes
    chunks: dict[str, bytes]


_decode_image = msgspec.msgpack.Decoder(_Image).decode


def read_image(image: bytes) -> tuple[bytes, dict[str, bytes]]:
    """The head and the chunks in an image."""
    taken = _decode_image(image)
    return taken.head, taken.chunks


def restore_image(log: MemoryStateLog, image: bytes) -> None:
    """Fill an empty log with the content of an image."""
    head, chunks = read_image(image)
    for name, blob in chunks.items():
        log.put_chunk(name, blob)
    log.put_head(head, EMPTY_LOG)

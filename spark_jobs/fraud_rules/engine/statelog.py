"""A key group's durable log: the interface between the engine and the store of its state.

The state of a key group is an append-only log of chunks (one per batch, with the accepted rows) and a small head. The
Spark job stores it in the state store, replays and tests in memory.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class StateLog(Protocol):
    """Chunks by id, and a head. All changes of a batch become durable together or not at all."""

    def head(self) -> bytes | None:
        """The head; None for an empty log."""

    def put_head(self, head: bytes) -> None:
        """Replace the head."""

    def chunk(self, chunk_id: int) -> bytes:
        """The chunk with this id, which must exist."""

    def put_chunk(self, chunk_id: int, blob: bytes) -> None:
        """Add a chunk."""

    def delete_chunk(self, chunk_id: int) -> None:
        """Remove a chunk, which must exist."""


class MemoryStateLog:
    """A state log in memory."""

    def __init__(self) -> None:
        self._head: bytes | None = None
        self._chunks: dict[int, bytes] = {}

    def head(self) -> bytes | None:
        return self._head

    def put_head(self, head: bytes) -> None:
        self._head = head

    def chunk(self, chunk_id: int) -> bytes:
        return self._chunks[chunk_id]

    def put_chunk(self, chunk_id: int, blob: bytes) -> None:
        self._chunks[chunk_id] = blob

    def delete_chunk(self, chunk_id: int) -> None:
        del self._chunks[chunk_id]

    def image(self) -> bytes | None:
        """The whole log as bytes for `restore_image`; None for an empty log."""
        return None if self._head is None else msgspec.msgpack.encode(_Image(self._head, self._chunks))


class _Image(msgspec.Struct, array_like=True):
    head: bytes
    chunks: dict[int, bytes]


_decode_image = msgspec.msgpack.Decoder(_Image).decode


def restore_image(log: StateLog, image: bytes) -> None:
    """Fill an empty log with the content of an image."""
    taken = _decode_image(image)
    for chunk_id, blob in taken.chunks.items():
        log.put_chunk(chunk_id, blob)
    log.put_head(taken.head)

"""A key group's durable log: the seam between the engine and what stores its state.

The state of a key group is an append-only log of chunks (one a batch, of what was accepted) and a small head. The
Spark job keeps it in the state store; replays and tests in memory.
"""

from __future__ import annotations

from typing import Protocol


class StateLog(Protocol):
    """Chunks by id, and a head. What is put becomes durable with the batch, all of it or nothing."""

    def head(self) -> bytes | None:
        """The head, or None where nothing was ever put."""

    def put_head(self, head: bytes) -> None:
        """Replace the head."""

    def chunk(self, chunk_id: int) -> bytes:
        """The chunk; it exists."""

    def put_chunk(self, chunk_id: int, blob: bytes) -> None:
        """Add a chunk."""

    def delete_chunk(self, chunk_id: int) -> None:
        """Remove a chunk; it exists."""


class MemoryLog:
    """A log in memory."""

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

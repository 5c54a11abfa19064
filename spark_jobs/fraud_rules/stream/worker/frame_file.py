"""A file of named frames that grows at its end: the newest small chunks and heads of a key group's log.

To create a file costs several times as much as to append to one, and a small batch changes every key group. Each
frame has a sealed header, so a reader stops at a frame that a dead writer left unfinished, and the next append
replaces it. Several processes can use the file in turn: `refresh` finds the frames that others have added. The caller
must hold the key group's view, except to read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_SEAL_BYTES: Final = 8
_LENGTHS: Final = struct.Struct("<HI")
_HEADER_BYTES: Final = _LENGTHS.size + _SEAL_BYTES
_MAX_DEAD_BYTES: Final = 262_144
"""The size of the dropped frames from which the file is written again without them. To write it costs as much as a
key group's part of some small batches."""


class _Place(NamedTuple):
    """The place of a frame in the file: the start of its header, and of its content, and its end."""

    start: int
    content: int
    end: int


class FrameFile:
    """The frames of one file by their names. A frame replaces an earlier one of its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._places: dict[str, _Place] = {}
        self._end = 0
        self._dead_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def refresh(self) -> None:
        """Find the frames that another process has added since the last call."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._forget()
            return
        if self._descriptor is None or os.fstat(self._descriptor).st_ino != found.st_ino or found.st_size < self._end:
            self._forget()
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND)
        if found.st_size > self._end:
            self._scan(found.st_size)

    def read(self, name: str) -> bytes | None:
        """The content of a frame, which a disk may have damaged; None without the frame."""
        place = self._places.get(name)
        if place is None or self._descriptor is None:
            return None
        return os.pread(self._descriptor, place.end - place.content, place.content)

    def append(self, frames: Mapping[str, bytes]) -> None:
        """Add frames in this order: contents by name. They need not survive a power cut."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        if os.fstat(self._descriptor).st_size != self._end:
            os.ftruncate(self._descriptor, self._end)
        headers = {name: _header(name, len(content)) for name, content in frames.items()}
        rest = memoryview(b"".join([part for name, content in frames.items() for part in (headers[name], content)]))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        for name, content in frames.items():
            self._add(name, len(headers[name]), len(content))

    def keep(self, names: Collection[str]) -> None:
        """Drop all other frames. Their space becomes free once they are many."""
        for name in [name for name in self._places if name not in names]:
            self._drop(name)
        if self._dead_bytes >= _MAX_DEAD_BYTES and self._descriptor is not None:
            self._rewrite(self._descriptor)

    def _rewrite(self, descriptor: int) -> None:
        kept = sorted(self._places.items(), key=lambda each: each[1].start)
        other = self._path.with_suffix(".new")
        other.write_bytes(b"".join(os.pread(descriptor, place.end - place.start, place.start) for _, place in kept))
        # ext4 writes a file to the disk if it is renamed over another one, and the batch would wait for that. So the
        # old file goes first. A process that dies in between loses the frames, not the state, which is in Kafka.
        self._path.unlink(missing_ok=True)
        other.rename(self._path)
        self._forget()
        self.refresh()

    def _scan(self, size: int) -> None:
        """Find the frames between the known end and the size of the file."""
        assert self._descriptor is not None
        first = self._end
        added = os.pread(self._descriptor, size - first, first)
        while (header := _decode_header(added, self._end - first)) is not None:
            name, before, content = header
            if self._end + before + content > size:
                return
            self._add(name, before, content)

    def _add(self, name: str, before: int, content: int) -> None:
        """Note a frame at the end: the sizes of its header with its name, and of its content."""
        if name in self._places:
            self._drop(name)
        start = self._end
        self._end = start + before + content
        self._places[name] = _Place(start, start + before, self._end)

    def _drop(self, name: str) -> None:
        place = self._places.pop(name)
        self._dead_bytes += place.end - place.start

    def _forget(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._end, self._dead_bytes = None, 0, 0
        self._places.clear()


def _header(name: str, content: int) -> bytes:
    sealed = _LENGTHS.pack(len(name), content) + name.encode()
    return _seal(sealed) + sealed


def _decode_header(text: bytes, start: int) -> tuple[str, int, int] | None:
    """The name of the frame that starts here, and the sizes of its header with its name, and of its content. None if
    the header is unfinished or damaged."""
    if len(text) - start < _HEADER_BYTES:
        return None
    name_bytes, content = _LENGTHS.unpack_from(text, start + _SEAL_BYTES)
    before = _HEADER_BYTES + name_bytes
    sealed = text[start + _SEAL_BYTES : start + before]
    if _seal(sealed) != text[start : start + _SEAL_BYTES]:
        return None
    return sealed[_LENGTHS.size :].decode(), before, content


def _seal(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_SEAL_BYTES).digest()

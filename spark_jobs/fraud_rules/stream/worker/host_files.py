"""A key group's log as files of this host, a copy of the topic `detector-state`.

A worker reads chunks from here when it merges them and when it refreshes a view. The files are a cache: all content has
a digest, content that does not match is ignored, and the folder is safe to delete at any time. The caller must hold the
key group's view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from fraud_rules.engine.state.arrays import named_full_disk
from fraud_rules.engine.statelog import StateVersion, is_content_of
from fraud_rules.stream.worker.frame_file import FrameFile

OWN_FILE_BYTES: Final = 65_536
"""The size from which a chunk is a file of its own."""

_SEAL_BYTES: Final = 16
_OFFSET_BYTES: Final = 8
_HEAD: Final = "head-"
_FRAMES: Final = "frames"


def head_name(version: StateVersion) -> str:
    """The name of the head of a version, for `HostFiles.keep`."""
    return f"{_HEAD}{version.version}-{version.digest:016x}"


class HostFiles:
    """The chunks of one key group by their names, and the heads by their versions.

    Large chunks are files of their own. A frame file has everything else, because that changes with every batch.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frames = FrameFile(folder / _FRAMES)
        self._newest_head = ("", b"")

    def refresh(self) -> None:
        """Find what other processes of this host have changed. The object must not be used before this call."""
        self._frames.refresh()

    def chunk(self, name: str) -> bytes | None:
        """The content of a chunk. None if it does not exist, or if its writer died or the disk has damaged it."""
        content = self._frames.read(name) if name in self._frames else self._file(name)
        return content if content is not None and is_content_of(name, content) else None

    def has_chunk(self, name: str) -> bool:
        """Whether this host has this chunk. Its content may be damaged."""
        return name in self._frames or (self._folder / name).exists()

    def adopt_chunk(self, name: str, file: Path) -> None:
        """Take a chunk's file from another folder of the same disk. Raises StorageFull."""
        size_bytes = file.stat().st_size
        with named_full_disk(self._folder, size_bytes):
            if size_bytes < OWN_FILE_BYTES:
                self._append({name: file.read_bytes()})
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            file.rename(self._folder / name)

    def head(self, version: StateVersion) -> bytes | None:
        """The head of a version. None if it does not exist or is damaged."""
        name = head_name(version)
        known, head = self._newest_head
        if name == known and name in self._frames:
            return head
        sealed = self._sealed_head(name)
        return None if sealed is None else sealed[_OFFSET_BYTES:]

    def write(self, version: StateVersion, head: bytes, complete_to: int, chunks: Mapping[str, bytes]) -> None:
        """Write chunks, whose names seal their contents, and then a head. Neither need survive a power cut.

        The files then hold all chunks of this version, and later chunks begin at the offset `complete_to` of the topic.
        Raises StorageFull.
        """
        content = complete_to.to_bytes(_OFFSET_BYTES, "little") + head
        frames = {name: chunk for name, chunk in chunks.items() if len(chunk) < OWN_FILE_BYTES}
        with named_full_disk(self._folder, sum(map(len, chunks.values())) + len(content)):
            if len(frames) < len(chunks):
                self._folder.mkdir(parents=True, exist_ok=True)
            for name, chunk in chunks.items():
                if name not in frames:
                    (self._folder / name).write_bytes(chunk)
            self._append(frames | {head_name(version): _seal(content) + content})
        self._newest_head = (head_name(version), head)

    def newest_version(self) -> int:
        """The version of the newest head; 0 without a head."""
        return max((_version_of(name) for name in self._heads()), default=0)

    def complete_to(self) -> int:
        """The offset of the topic from which the files of the newest head lack chunks; 0 without a head."""
        for name in sorted(self._heads(), key=_version_of, reverse=True):
            sealed = self._sealed_head(name)
            if sealed is not None:
                return int.from_bytes(sealed[:_OFFSET_BYTES], "little")
        return 0

    def keep(self, names: Collection[str]) -> None:
        """Delete everything else."""
        with named_full_disk(self._folder, 0):
            self._frames.keep(names)
        for path in self._folder.iterdir():
            if path.name not in names and path.name != _FRAMES:
                path.unlink(missing_ok=True)

    def _heads(self) -> list[str]:
        return [name for name in self._frames if name.startswith(_HEAD)]

    def _sealed_head(self, name: str) -> bytes | None:
        sealed = self._frames.read(name)
        if sealed is None or sealed[:_SEAL_BYTES] != _seal(sealed[_SEAL_BYTES:]):
            return None
        return sealed[_SEAL_BYTES:]

    def _file(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _append(self, frames: Mapping[str, bytes]) -> None:
        try:
            self._frames.append(frames)
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._frames.append(frames)


def _version_of(head: str) -> int:
    return int(head.split("-")[1])


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SEAL_BYTES).digest()

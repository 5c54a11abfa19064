"""A key group's log as files of this host, a copy of the topic `detector-state`.

A worker reads chunks from here when it merges them and when it refreshes a view. The files are a cache: each one has a
digest, a file that does not match is ignored, and the folder is safe to delete at any time. The caller must hold the
key group's view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from fraud_rules.engine.state.arrays import named_full_disk
from fraud_rules.engine.statelog import StateVersion, is_content_of

__all__ = ["HostFiles", "head_file"]

_SEAL_BYTES: Final = 16
_OFFSET_BYTES: Final = 8
_HEAD: Final = "head-"


def head_file(version: StateVersion) -> str:
    """The name of the file with the head of a version."""
    return f"{_HEAD}{version.version}-{version.digest:016x}"


class HostFiles:
    """The files of one key group: chunks by their names, and heads by their versions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def chunk(self, name: str) -> bytes | None:
        """The content of a chunk. None if it does not exist, or if its writer died or the disk has damaged it."""
        content = self._read(name)
        return content if content is not None and is_content_of(name, content) else None

    def has_chunk(self, name: str) -> bool:
        """Whether there is a file for this chunk. Its content may be damaged."""
        return (self._folder / name).exists()

    def write_chunk(self, name: str, content: bytes) -> None:
        """Write a chunk, whose name seals its content. It need not survive a power cut. Raises StorageFull."""
        self._write(name, content)

    def head(self, version: StateVersion) -> bytes | None:
        """The head of a version. None if it does not exist or is damaged."""
        sealed = self._sealed_head(head_file(version))
        return None if sealed is None else sealed[_OFFSET_BYTES:]

    def write_head(self, version: StateVersion, head: bytes, complete_to: int) -> None:
        """Write a head. The files hold all chunks of this version, and later chunks begin at the offset `complete_to`
        of the topic. Raises StorageFull."""
        content = complete_to.to_bytes(_OFFSET_BYTES, "little") + head
        self._write(head_file(version), _seal(content) + content)

    def complete_to(self) -> int:
        """The offset of the topic from which the files of the newest head lack chunks; 0 without a head."""
        names = [path.name for path in self._folder.glob(f"{_HEAD}*")]
        for name in sorted(names, key=lambda each: int(each.split("-")[1]), reverse=True):
            sealed = self._sealed_head(name)
            if sealed is not None:
                return int.from_bytes(sealed[:_OFFSET_BYTES], "little")
        return 0

    def keep(self, names: Collection[str]) -> None:
        """Delete all other files."""
        for path in self._folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _sealed_head(self, name: str) -> bytes | None:
        sealed = self._read(name)
        if sealed is None or sealed[:_SEAL_BYTES] != _seal(sealed[_SEAL_BYTES:]):
            return None
        return sealed[_SEAL_BYTES:]

    def _read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        with named_full_disk(self._folder, len(content)):
            (self._folder / name).write_bytes(content)


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SEAL_BYTES).digest()

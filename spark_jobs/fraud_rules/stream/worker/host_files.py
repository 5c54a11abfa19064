"""A key group's log as files of this host, a copy of the topic `detector-state`.

A worker reads chunks from here when it merges them and when it rebuilds a view. The files are a cache: each one has a
digest, a file that does not match is ignored, and the folder is safe to delete at any time. The caller must hold the
key group's view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from fraud_rules.engine.state.arrays import named_full_disk
from fraud_rules.engine.statelog import StateVersion

__all__ = ["HostFiles", "head_file"]

_SEAL_BYTES: Final = 12


def head_file(version: StateVersion) -> str:
    """The name of the file with the head of a version."""
    return f"head-{version.version}-{version.digest:016x}"


class HostFiles:
    """The files of one key group, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """The content of a file. None if it does not exist, or if its writer died or the disk has damaged it."""
        try:
            sealed = (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        seal, content = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        return content if seal == _seal(content) else None

    def write(self, name: str, content: bytes) -> None:
        """Write a file. It need not survive a power cut. Raises StorageFull."""
        with named_full_disk(self._folder, len(content)):
            (self._folder / name).write_bytes(_seal(content) + content)

    def keep(self, names: Collection[str]) -> None:
        """Delete all other files."""
        for path in self._folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SEAL_BYTES).digest()

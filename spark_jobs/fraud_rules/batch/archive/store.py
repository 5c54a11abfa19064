"""The archive's folder: numbered manifests, atomic files, and one writer at a time.

A commit creates the next manifest and fails if it exists, so of two writers only one can commit. A file that no
manifest names is not part of the archive. Killed runs leave such files behind, and `sweep` removes them.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.batch.archive.manifest import FORMAT, Manifest
from fraud_rules.configuration.mounted_folder import mounted_folder
from fraud_rules.errors import ArchiveBusy, ArchiveDamaged, FraudError, StorageFull
from fraud_rules.runtime.atomic_file import create_file, write_file
from fraud_rules.runtime.file_lock import FileLock

__all__ = ["ArchiveStore", "locked", "named_storage_errors", "write_whole"]

MANIFESTS: Final = "manifests"
DATA: Final = "data"
_KEPT: Final = 20
"""The number of older manifests that are kept for inspection."""

_ABANDONED_S: Final = 86_400


class ArchiveStore:
    """The archive in a folder that every host of the job mounts under the same path."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @classmethod
    def at(cls, place: str) -> ArchiveStore:
        """Open the archive at a path or a `file:` URI. Raises ConfigError for another file system."""
        return cls(mounted_folder(place, "archive"))

    def latest(self) -> Manifest:
        """The newest manifest, an empty one in a new archive. Raises ArchiveDamaged."""
        versions = self._versions()
        if not versions:
            return Manifest()
        path = self._manifest(versions[-1])
        try:
            manifest = Manifest.decode(path.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            raise ArchiveDamaged(f"{path} cannot be read ({error}): restore the archive from a copy") from error
        if manifest.format != FORMAT:
            raise ArchiveDamaged(f"{path} has format {manifest.format}, but this version reads {FORMAT}")
        return manifest

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the newest. Raises ArchiveBusy if another run has committed meanwhile, StorageFull."""
        path = self._manifest(manifest.version)
        with named_storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not create_file(path, manifest.encode()):
                raise ArchiveBusy(f"{path} exists: another run archives into {self.root}; wait for its end")
        for version in self._versions()[:-_KEPT]:
            self._manifest(version).unlink(missing_ok=True)

    def new_path(self, table: str, day: str) -> Path:
        """The path of a new file of a table and day. Its folder is created."""
        folder = self.root / DATA / table / f"day={day}"
        with named_storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{uuid.uuid4().hex}.parquet"

    def relative(self, path: Path) -> str:
        """The name of a file in a manifest."""
        return path.relative_to(self.root).as_posix()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing, and hide its payments from other users of the host. Raises ArchiveBusy."""
        with named_storage_errors(self.root):
            self.root.mkdir(mode=0o750, parents=True, exist_ok=True)
            mode = self.root.stat().st_mode
            if mode & 0o007 and self.root.stat().st_uid == os.getuid():
                self.root.chmod(mode & 0o770)
        with locked(self.root / "lock", ArchiveBusy(f"another run archives into {self.root}: wait for its end")):
            yield

    def sweep(self, manifest: Manifest) -> int:
        """Delete the files that killed runs left behind at least a day ago. Return their number."""
        known = {file.path for file in manifest.files} | {each.path for each in manifest.retired}
        before = time.time() - _ABANDONED_S
        count = 0
        for path in (self.root / DATA).rglob("*.parquet*"):
            if self.relative(path) not in known and path.stat().st_mtime < before:
                path.unlink(missing_ok=True)
                count += 1
        return count

    def _manifest(self, version: int) -> Path:
        return self.root / MANIFESTS / f"{version:010d}.json"

    def _versions(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.root / MANIFESTS).glob("*.json") if path.stem.isdigit())


@contextmanager
def locked(path: Path, busy: FraudError, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file. Raises `busy` if another process keeps it for `wait_s`, StorageFull, ArchiveDamaged."""
    with named_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, 0o600)
    with lock:
        if not lock.acquire(wait_s):
            raise busy
        yield


@contextmanager
def named_storage_errors(path: Path) -> Iterator[None]:
    """Map the errors of a file system to StorageFull or ArchiveDamaged."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"no space left for {path}: free some space and run the job again; nothing is lost"
            ) from error
        raise ArchiveDamaged(f"{path} cannot be used: {error.strerror or error}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write or replace a file atomically. Raises StorageFull, ArchiveDamaged."""
    with named_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)

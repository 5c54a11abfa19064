"""The archive's folder: numbered manifests, atomic files, and one writer at a time.

A commit creates the next manifest and fails if it exists, so of two writers only one can commit. In a folder, a lock
ends a second writer before it works in vain; an object store has no locks. A file that no manifest names is not part of
the archive. Killed runs leave such files behind, and `sweep` removes them.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.batch.archive.manifest import FORMAT, Manifest, decode_manifest
from fraud_rules.batch.archive.place import (
    ArchivePath,
    archive_path,
    create,
    is_local,
    make_folder,
    put,
    unreachable_errors,
)
from fraud_rules.errors import ArchiveBusy, ArchiveDamaged, ArchiveUnreachable, FraudError, StorageFull
from fraud_rules.runtime import clock
from fraud_rules.runtime.file_lock import FileLock

MANIFESTS: Final = "manifests"
DATA: Final = "data"
_KEPT: Final = 20
"""The number of older manifests that are kept for inspection."""

_ABANDONED_S: Final = 86_400


class ArchiveStore:
    """The archive at its root."""

    def __init__(self, root: ArchivePath) -> None:
        self.root: ArchivePath = root.absolute()

    @classmethod
    def at(cls, place: str) -> ArchiveStore:
        """Open the archive at a path or URI, see `archive_path`. Raises ConfigError."""
        return cls(archive_path(place))

    def latest(self) -> Manifest:
        """The newest manifest, an empty one in a new archive. Raises ArchiveDamaged, ArchiveUnreachable."""
        with named_storage_errors(self.root):
            versions = self._versions()
        if not versions:
            return Manifest()
        path = self._manifest(versions[-1])
        try:
            with unreachable_named(path):
                manifest = decode_manifest(path.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            raise ArchiveDamaged(f"{path} cannot be read ({error}): restore the archive from a copy") from error
        if manifest.format != FORMAT:
            raise ArchiveDamaged(f"{path} has format {manifest.format}, but this version reads {FORMAT}")
        return manifest

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the newest. Raises ArchiveBusy if another run has committed meanwhile, StorageFull,
        ArchiveUnreachable.
        """
        path = self._manifest(manifest.version)
        with named_storage_errors(path):
            make_folder(path.parent)
            content = msgspec.json.encode(manifest)
            # A client repeats a creation whose answer was lost, and then finds its own object.
            if not create(path, content) and path.read_bytes() != content:
                raise ArchiveBusy(f"{path} exists: another run archives into {self.root}; wait for its end")
            for version in self._versions()[:-_KEPT]:
                self._manifest(version).unlink(missing_ok=True)

    def new_path(self, table: str, day: str) -> ArchivePath:
        """The path of a new file of a table and day. Its folder is created."""
        folder = self.root / DATA / table / f"day={day}"
        with named_storage_errors(folder):
            make_folder(folder)
        return folder / f"{uuid.uuid4().hex}.parquet"

    def relative(self, path: ArchivePath) -> str:
        """The name of a file in a manifest."""
        return path.as_posix().removeprefix(f"{self.root.as_posix()}/")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing, and hide its payments from other users of the host. Raises ArchiveBusy.

        An object store has no lock: of two runs, one commits, and the other one ends with ArchiveBusy then.
        """
        root = self.root
        if isinstance(root, Path):
            with named_storage_errors(root):
                root.mkdir(mode=0o750, parents=True, exist_ok=True)
                mode = root.stat().st_mode
                if mode & 0o007 and root.stat().st_uid == os.getuid():
                    root.chmod(mode & 0o770)
        with locked(root / "lock", ArchiveBusy(f"another run archives into {root}: wait for its end")):
            yield

    def sweep(self, manifest: Manifest) -> int:
        """Delete the files that killed runs left behind at least a day ago. Return their number."""
        known = {file.path for file in manifest.files} | {each.path for each in manifest.retired}
        before = clock.now_ms() / clock.MS_PER_S - _ABANDONED_S
        count = 0
        with named_storage_errors(self.root):
            for path in (self.root / DATA).rglob("*.parquet*"):
                if self.relative(path) not in known and path.stat().st_mtime < before:
                    path.unlink(missing_ok=True)
                    count += 1
        return count

    def _manifest(self, version: int) -> ArchivePath:
        return self.root / MANIFESTS / f"{version:010d}.json"

    def _versions(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.root / MANIFESTS).glob("*.json") if path.stem.isdigit())


@contextmanager
def locked(path: ArchivePath, busy: FraudError, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file, if the file system has locks.

    Raises `busy` if another process keeps it for `wait_s`, StorageFull, ArchiveDamaged.
    """
    if not isinstance(path, Path):
        yield
        return
    with named_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, 0o600)
    with lock:
        if not lock.acquire(wait_s):
            raise busy
        yield


@contextmanager
def unreachable_named(path: ArchivePath) -> Iterator[None]:
    """Map the errors of an object store that does not answer or refuses the keys to ArchiveUnreachable."""
    try:
        yield
    except unreachable_errors() as error:
        raise ArchiveUnreachable(f"{path} cannot be reached ({error}): run the job again; nothing is lost") from error
    except PermissionError as error:
        if is_local(path):
            raise
        raise ArchiveUnreachable(f"{path}: the object store refuses the access ({error}): check its keys") from error


@contextmanager
def named_storage_errors(path: ArchivePath) -> Iterator[None]:
    """Map the errors of a file system to StorageFull or ArchiveDamaged, and those of an object store that cannot be
    used to ArchiveUnreachable.
    """
    try:
        with unreachable_named(path):
            yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"no space left for {path}: free some space and run the job again; nothing is lost"
            ) from error
        raise ArchiveDamaged(f"{path} cannot be used: {error.strerror or error}") from error


def local_file(path: ArchivePath, folder: Path) -> Path:
    """The file itself if it is in a folder, and a copy in `folder` if it is in an object store. Raises ArchiveDamaged,
    ArchiveUnreachable.
    """
    if isinstance(path, Path):
        return path
    copy = folder / path.name
    with named_storage_errors(path):
        copy.write_bytes(path.read_bytes())
    return copy


def write_whole(path: ArchivePath, content: bytes) -> None:
    """Write or replace a file atomically. Raises StorageFull, ArchiveDamaged, ArchiveUnreachable."""
    with named_storage_errors(path):
        make_folder(path.parent)
        put(path, content)

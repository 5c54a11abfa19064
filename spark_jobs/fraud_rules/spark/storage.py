"""Reads and writes small files in a checkpoint's folder, on this host's disk or on a mounted file system.

Pins and markers need a file that is created only if it is absent, a sync to disk, and a lock. The product uses the
host's file system for them and refuses other stores (see `configuration.mounted_folder`).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from fraud_rules.errors import CheckpointDamaged
from fraud_rules.runtime.atomic_file import Durability, create_file, write_file
from fraud_rules.runtime.file_lock import FileLock

_IN_USE = ".in-use"


class Folder(Protocol):
    """A folder whose files are written atomically. Names are relative paths with slashes.

    Every method raises CheckpointDamaged if the file system fails.
    """

    root: str

    def names(self, folder: str = "") -> list[str]:
        """The names in a sub-folder, sorted. Empty if it does not exist."""

    def read(self, name: str) -> bytes | None:
        """The content of a file. None if it does not exist."""

    def create(
        self, name: str, content: bytes, *, replace: bool = False, durability: Durability = Durability.CONTENT
    ) -> bool:
        """Write a file. Without `replace`, leave an existing file unchanged and return False."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def exists(self, name: str) -> bool:
        """Whether a file or folder exists."""

    def hold(self, *, exclusive: bool = False) -> bool:
        """Lock the folder: shared while this process uses it, or `exclusive` to set it aside.

        Returns False if another process holds an incompatible lock.
        """

    def release(self) -> None:
        """Release the lock."""

    def beside(self, suffix: str) -> Folder:
        """The folder with the name of this one and a suffix."""

    def move(self, root: str) -> bool:
        """Rename the folder to an unused name. Return False if the folder does not exist."""

    def remove(self) -> None:
        """Delete the folder and its content, if it exists."""


class DiskFolder:
    """A folder on this host's disk or on a mounted file system."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self.root = str(self._path)
        self._held: FileLock | None = None

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(path.name for path in (self._path / folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._damaged(folder, error) from error

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(name, error) from error

    def create(
        self, name: str, content: bytes, *, replace: bool = False, durability: Durability = Durability.CONTENT
    ) -> bool:
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not replace:
                return create_file(path, content, durability)
            write_file(path, content, durability)
        except OSError as error:
            raise self._damaged(name, error) from error
        return True

    def delete(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def hold(self, *, exclusive: bool = False) -> bool:
        self.release()
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._held = FileLock(self._path / _IN_USE)
            if self._held.acquire(shared=not exclusive):
                return True
        except OSError as error:
            raise self._damaged(_IN_USE, error) from error
        self.release()
        return False

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def beside(self, suffix: str) -> DiskFolder:
        return DiskFolder(self._path.with_name(self._path.name + suffix))

    def move(self, root: str) -> bool:
        try:
            self._path.rename(root)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._damaged("", error) from error
        return True

    def remove(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def _damaged(self, name: str, error: OSError) -> CheckpointDamaged:
        return CheckpointDamaged(f"{self.root}/{name} cannot be used: {error.strerror}")

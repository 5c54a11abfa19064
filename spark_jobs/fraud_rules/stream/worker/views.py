"""The folder of a host's views of key groups. The views are a cache, which is safe to delete at any time."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from fraud_rules.errors import ConfigError, StorageFull

OWNER: Final = "owner"
"""A file in each folder: the host's boot id and the checkpoint, one per line."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


LEAST_FREE_BYTES: Final = 67_108_864
"""The space that a start needs for views, with the existing views of its checkpoint."""


def view_folder(checkpoint: str, root: str = "") -> Path:
    """The folder of a checkpoint's views on this host. It is created if missing. `root`: the setting `views_folder`.

    Raises ConfigError if another user has created it.
    """
    _create_root(root)
    folder = _folder_of(checkpoint, root)
    folder.mkdir(exist_ok=True)
    (folder / OWNER).write_text(_owner_of(checkpoint), encoding="utf-8")
    return folder


def check_views_disk(checkpoint: str, root: str) -> None:
    """Raise StorageFull if the disk of the views has too little space for a start, ConfigError if the folder is
    unusable."""
    try:
        _create_root(root)
        free = shutil.disk_usage(_root(root)).free
    except OSError as error:
        raise ConfigError(f"views_folder: {_root(root)} cannot be used: {error.strerror}") from error
    own = sum(path.stat().st_blocks * 512 for path in _folder_of(checkpoint, root).rglob("*") if path.is_file())
    if free + own < LEAST_FREE_BYTES:
        raise StorageFull(
            f"No space left for the views: the disk of {_root(root)} has {free:,} bytes free, and a start needs "
            f"{LEAST_FREE_BYTES:,}: free some space or name another folder (views_folder in config/detector.yaml)"
        )


def _folder_of(checkpoint: str, root: str) -> Path:
    return _root(root) / hashlib.blake2b(_owner_of(checkpoint).encode(), digest_size=12).hexdigest()


def _owner_of(checkpoint: str) -> str:
    """The content of the owner file. It has the boot id, because a power cut may have damaged older views."""
    return f"{_boot()}\n{checkpoint}\n"


def sweep_views(root: str = "") -> None:
    """Remove the views of an earlier boot and of deleted checkpoints of this host."""
    for folder in _root(root).glob("*"):
        if _is_left_behind(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    try:
        boot, checkpoint, *_ = (folder / OWNER).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False  # another process is creating it, or it is not a view folder
    if boot != _boot():
        return True
    here = checkpoint.removeprefix("file://").removeprefix("file:")
    return here.startswith("/") and not Path(here).exists()


def _root(root: str) -> Path:
    """The folder of this user's views. Users of a host share the temporary folder, so each has a name of their own."""
    return Path(root or tempfile.gettempdir()) / f"fraud-rules-views-{os.getuid()}"


def _create_root(root: str) -> None:
    """Create the folder for this user only, because views have payees and amounts.

    Raises ConfigError if another user has created it, OSError.
    """
    folder = _root(root)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat(follow_symlinks=False)
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"views_folder: {folder} belongs to another user: remove it, or name another folder")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown"

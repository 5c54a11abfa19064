"""The folder of a host's views of key groups. The views are a cache, which is safe to delete at any time."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from fraud_rules.errors import ConfigError, StorageFull
from fraud_rules.runtime import clock

OWNER: Final = "owner"
"""A file in each folder: the host's boot id and the owner, one per line. Its time tells the last use."""

_UNUSED_MS: Final = 7 * 86_400_000
"""How long views stay on a host that evaluates nothing for their owner."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


LEAST_FREE_BYTES: Final = 67_108_864
"""The space that a start needs for views, with the existing views of its detector."""


def owner_of_views(detector: str, history: str) -> str:
    """The owner of a detector's views. Another history never uses them."""
    return f"{detector}/{history}"


def view_folder(owner: str, root: str = "") -> Path:
    """The folder of an owner's views on this host. It is created if missing. `root`: the setting `views_folder`.

    Raises ConfigError if another user has created it.
    """
    _create_root(root)
    folder = _folder_of(owner, root)
    folder.mkdir(exist_ok=True)
    (folder / OWNER).write_text(_with_boot(owner), encoding="utf-8")
    return folder


def views_of(detector: str, root: str = "") -> list[Path]:
    """The folders of a detector's views on this host, of all its histories."""
    return [each for each in _root(root).glob("*") if (_owner_in(each) or "").startswith(owner_of_views(detector, ""))]


def touch_views(owner: str, root: str) -> None:
    """Record that the views are in use. Each task calls this."""
    with suppress(OSError):
        os.utime(_folder_of(owner, root) / OWNER)


def check_views_disk(detector: str, root: str) -> None:
    """Raise StorageFull if the disk of the views has too little space for a start, ConfigError if the folder is
    unusable."""
    try:
        _create_root(root)
        free = shutil.disk_usage(_root(root)).free
    except OSError as error:
        raise ConfigError(f"views_folder: {_root(root)} cannot be used: {error.strerror}") from error
    if not os.access(_root(root), os.W_OK):
        raise ConfigError(f"views_folder: {_root(root)} is not writable: mount its disk for writing, or name another")
    files = (path for folder in views_of(detector, root) for path in folder.rglob("*"))
    own = sum(path.stat().st_blocks * 512 for path in files if path.is_file())
    if free + own < LEAST_FREE_BYTES:
        raise StorageFull(
            f"No space left for the views: the disk of {_root(root)} has {free:,} bytes free, and a start needs "
            f"{LEAST_FREE_BYTES:,}: free some space or name another folder (views_folder in config/detector.yaml)"
        )


def _folder_of(owner: str, root: str) -> Path:
    return _root(root) / hashlib.blake2b(_with_boot(owner).encode(), digest_size=12).hexdigest()


def _with_boot(owner: str) -> str:
    """The content of the owner file. It has the boot id, because a power cut may have damaged older views."""
    return f"{_boot()}\n{owner}\n"


def sweep_views(root: str = "") -> None:
    """Remove the views of an earlier boot, and those that no task has used for a week."""
    for folder in _root(root).glob("*"):
        if _is_left_behind(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    try:
        boot, *_ = (folder / OWNER).read_text(encoding="utf-8").splitlines()
        unused_ms = clock.now_ms() - (folder / OWNER).stat().st_mtime * clock.MS_PER_S
    except (OSError, ValueError):
        return False  # another process is creating it, or it is not a view folder
    return boot != _boot() or unused_ms > _UNUSED_MS


def _owner_in(folder: Path) -> str | None:
    """The owner that a folder of views names. None if it names none."""
    try:
        _, owner, *_ = (folder / OWNER).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return owner


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


@cache
def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown"

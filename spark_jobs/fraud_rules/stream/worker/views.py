"""Where a host keeps the views of its key groups: pictures of the state, safe to delete at any time."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

from fraud_rules.errors import ConfigError, StorageFull

OWNER: Final = "owner"
"""A file in each folder: the host's boot and the checkpoint, a line each."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


LEAST_FREE_BYTES: Final = 67_108_864
"""What a start needs for views, those of its checkpoint that are there included."""


def view_folder(checkpoint: str, root: str = "") -> Path:
    """The folder of a checkpoint's views on this host, made if need be; `root` is the setting `views_folder`."""
    folder = _folder_of(checkpoint, root)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OWNER).write_text(_owner_of(checkpoint), encoding="utf-8")
    return folder


def check_views_disk(checkpoint: str, root: str) -> None:
    """Raise StorageFull when the disk of the views has too little room to start with, ConfigError when it has no such
    folder."""
    try:
        _root(root).mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(_root(root)).free
    except OSError as error:
        raise ConfigError(f"views_folder: {_root(root)} cannot be used: {error.strerror}") from error
    own = sum(path.stat().st_size for path in _folder_of(checkpoint, root).rglob("*") if path.is_file())
    if free + own < LEAST_FREE_BYTES:
        raise StorageFull(
            f"No space left for the views: the disk of {_root(root)} has {free:,} bytes free, and a start needs "
            f"{LEAST_FREE_BYTES:,}: free some space or name another folder (views_folder in config/detector.yaml)"
        )


def _folder_of(checkpoint: str, root: str) -> Path:
    return _root(root) / hashlib.blake2b(_owner_of(checkpoint).encode(), digest_size=12).hexdigest()


def _owner_of(checkpoint: str) -> str:
    """The views go with the host's boot, because a view that a power cut tore must not be believed."""
    return f"{_boot()}\n{checkpoint}\n"


def sweep_views(root: str = "") -> None:
    """Remove the views that are of no use: of an earlier boot, and of checkpoints of this host that are gone."""
    for folder in _root(root).glob("*"):
        if _is_left_behind(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    try:
        boot, checkpoint, *_ = (folder / OWNER).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False  # being made, or not ours
    if boot != _boot():
        return True
    here = checkpoint.removeprefix("file://").removeprefix("file:")
    return here.startswith("/") and not Path(here).exists()


def _root(root: str) -> Path:
    return Path(root or tempfile.gettempdir()) / "fraud-rules-views"


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown"

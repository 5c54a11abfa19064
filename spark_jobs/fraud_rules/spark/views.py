"""Where a host keeps the views of its key groups: pictures of the state, safe to delete at any time."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

OWNER: Final = "owner"
"""A file in each folder: the host's boot and the checkpoint, a line each."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def view_folder(checkpoint: str) -> Path:
    """The folder of a checkpoint's views on this host, made if need be.

    It goes with the host's boot, because a view that a power cut tore must not be believed.
    """
    owner = f"{_boot()}\n{checkpoint}\n"
    folder = _root() / hashlib.blake2b(owner.encode(), digest_size=12).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OWNER).write_text(owner, encoding="utf-8")
    return folder


def sweep_views() -> None:
    """Remove the views that nobody will look at again: of an earlier boot, and of checkpoints of this host that are
    gone."""
    for folder in _root().glob("*"):
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


def _root() -> Path:
    return Path(tempfile.gettempdir()) / "fraud-rules-views"


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown"

"""Folders for files that can be made again, below FRAUD_CACHE_DIR or the user's cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_root() -> Path:
    """FRAUD_CACHE_DIR, or the folder of this product in the user's cache."""
    return Path(os.environ.get("FRAUD_CACHE_DIR") or Path.home() / ".cache" / "fraud-rules")


def cache_folder(name: str) -> Path:
    """The folder with this name, which is created and which only this user can fill.

    It is in the temporary folder if the user's cache is not writable, and new if another user has created that one.
    """
    wanted = cache_root() / name
    shared = Path(tempfile.gettempdir()) / f"fraud-rules-{os.getuid()}" / name
    known = next((folder for folder in (wanted, shared) if _is_ours(folder)), None)
    return known or Path(tempfile.mkdtemp(prefix=name))


def _is_ours(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK)
    except OSError:
        return False

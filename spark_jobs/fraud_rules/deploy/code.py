"""Identifies the code by a digest, equal for a checkout, an installation and a wheel of the same sources.

The digest also depends on the release of the time zones, because conditions depend on it like on the code.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fraud_rules.errors import ReleaseInvalid
from fraud_rules.runtime.zones_release import zones_release

ENTRY: Final = "detector"
"""The module that starts a detector, beside the package."""

_PACKAGE: Final = "fraud_rules"
_DIGEST_CHARS = 16


def code_digest() -> str:
    """The digest of the running code."""
    root = code_root()
    files = [root / f"{ENTRY}.py", *(root / _PACKAGE).rglob("*.py")]
    return _digest((file.relative_to(root).as_posix(), file.read_bytes()) for file in files if file.is_file())


def code_root() -> Path:
    """The folder of the running code."""
    return Path(__file__).resolve().parents[2]


def code_digest_of_wheel(wheel: Path) -> str:
    """The digest of a wheel's code. Raises ReleaseInvalid if the wheel cannot be read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name == f"{ENTRY}.py" or _is_source(name)]
            return _digest((name, archive.read(name)) for name in names)
    except (OSError, zipfile.BadZipFile) as error:
        raise ReleaseInvalid(f"the wheel {wheel} cannot be read: {error}") from error


def _is_source(name: str) -> bool:
    return name.startswith(f"{_PACKAGE}/") and name.endswith(".py")


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256(f"tzdata {zones_release()}\n".encode())
    for name, content in sorted(files):
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGEST_CHARS]

"""Files that appear whole or not at all: written under another name in the same folder, then renamed.

Readers that list a folder can skip unfinished files: their names start with a dot and end with `.tmp`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path


class Durability(Enum):
    """Which guarantee a written file has after a power cut. Each level includes the one before."""

    NONE = 0
    """The file may be empty or cut off. A process that dies does no harm."""

    CONTENT = 1
    """The file has the old content or the new one."""

    NAME = 2
    """The file has the new content."""


def write_file(path: Path, content: bytes, durability: Durability = Durability.CONTENT) -> None:
    """Write a file and replace an older one. Raises OSError."""
    with replaced_file(path, durability) as partial:
        partial.write_bytes(content)


def create_file(path: Path, content: bytes, durability: Durability = Durability.CONTENT) -> bool:
    """Write a file that does not exist yet. Returns False, and changes nothing, if it exists. Raises OSError.

    Of several processes that create one file, exactly one gets True.
    """
    partial = _partial(path)
    try:
        partial.write_bytes(content)
        _sync_content(partial, durability)
        os.link(partial, path)
        _sync_name(path, durability)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    return True


@contextmanager
def replaced_file(path: Path, durability: Durability = Durability.CONTENT) -> Iterator[Path]:
    """Give a path for the new content. At the end of the block the content replaces the file.

    After an error in the block the file is unchanged. Raises OSError.
    """
    partial = _partial(path)
    try:
        yield partial
        _sync_content(partial, durability)
        partial.replace(path)
        _sync_name(path, durability)
    finally:
        partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def _sync_content(path: Path, durability: Durability) -> None:
    if durability is not Durability.NONE:
        _sync(path)


def _sync_name(path: Path, durability: Durability) -> None:
    if durability is Durability.NAME:
        _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""File locks between the processes of a host that share a SQLite file. Every wait has a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fraud_control.domain.errors import StoreBusy, Unavailable
from fraud_rules.runtime.file_lock import FileLock


@contextmanager
def held_file(path: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a file. Raises StoreBusy if another process does not release it in time, Unavailable."""
    try:
        lock = FileLock(path, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    with lock as file:
        if not file.acquire(wait_s):
            raise StoreBusy(f"process {file.holder()} has held {path.name} for {wait_s:g} s and may hang")
        yield

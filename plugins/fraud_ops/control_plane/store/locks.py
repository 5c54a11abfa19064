"""Locks between the processes that share a store. Every wait has a limit, and the loss of a lock is detected."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from fraud_ops.control_plane.errors import LeadershipLost, StoreBusy, Unavailable

__all__ = ["Leadership", "LockFile", "advisory_leadership", "file_leadership", "held_file"]

_CHECK_S: Final = 1.0
_SHORTEST_PAUSE_S: Final = 0.000_5
_LONGEST_PAUSE_S: Final = 0.01
_IDLE_S: Final = 60
_HAS_IDLE_TIMEOUT: Final = (14,)


class Leadership:
    """Whether this process leads. Its truth value is the answer. Only one thread may use it at a time."""

    def __init__(self, name: str, *, led: bool, holds: Callable[[], bool] = lambda: True) -> None:
        """`holds` returns whether this process still holds the lock."""
        self._name = name
        self._led = led
        self._holds = holds
        self._checked_s = time.monotonic()

    def __bool__(self) -> bool:
        return self._led

    def check(self) -> None:
        """Check, at most once a second, that this process still holds the lock. Raises LeadershipLost if not."""
        now_s = time.monotonic()
        if not self._led or now_s - self._checked_s < _CHECK_S:
            return
        self._checked_s = now_s
        if not self._holds():
            raise LeadershipLost(f"this process has lost the {self._name} lock: another process may lead")


class LockFile:
    """A file that this process can lock. The operating system releases the lock when the process ends."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle

    def acquire(self, wait_s: float) -> bool:
        """Lock the file within `wait_s`; False if another process holds it for longer."""
        deadline_s, pause_s = time.monotonic() + wait_s, _SHORTEST_PAUSE_S
        while not self._locked():
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)
        return True

    def holder(self) -> str:
        """Read the id of the process that locked the file last."""
        return os.pread(self._handle, 20, 0).decode("ascii", "replace") or "unknown"

    def is_ours(self) -> bool:
        """Whether the path still names the opened file. A lock on a removed file excludes no other process."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._handle))
        except FileNotFoundError:
            return False

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def _lock_file(path: Path) -> Iterator[LockFile]:
    """Open a lock file. The end of the block releases the lock. Raises Unavailable."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    try:
        yield LockFile(path, handle)
    finally:
        os.close(handle)


@contextmanager
def held_file(path: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a file. Raises StoreBusy if another process does not release it in time, Unavailable."""
    with _lock_file(path) as file:
        if not file.acquire(wait_s):
            raise StoreBusy(f"process {file.holder()} has held {path.name} for {wait_s:g} s and may hang")
        yield


@contextmanager
def file_leadership(path: Path, name: str) -> Iterator[Leadership]:
    """Lead by a file lock, if no other process leads. Raises Unavailable."""
    with _lock_file(path) as file:
        yield Leadership(name, led=file.acquire(0), holds=file.is_ours)


@contextmanager
def advisory_leadership(connection: Connection, name: str, key: int) -> Iterator[Leadership]:
    """Lead by a lock of a Postgres session. If this process led, the connection cannot be used again afterwards.

    A suspended process does not check its lock, so Postgres ends its session and with it the lock.
    """
    led, session = connection.execute(text("SELECT pg_try_advisory_lock(:key), pg_backend_pid()"), {"key": key}).one()
    if led and (connection.dialect.server_version_info or ()) >= _HAS_IDLE_TIMEOUT:
        connection.execute(text(f"SET idle_session_timeout = '{_IDLE_S}s'"))
    connection.commit()

    def holds() -> bool:
        try:
            alive: bool = connection.execute(text("SELECT pg_backend_pid()")).scalar() == session
            connection.commit()
        except SQLAlchemyError:
            return False
        return alive

    try:
        yield Leadership(name, led=led, holds=holds)
    finally:
        if led:
            connection.invalidate()

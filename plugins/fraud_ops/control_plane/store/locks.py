"""Locks between the processes that share a store. Every wait has a limit, and a lock that is lost is noticed."""

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
    """Whether this process leads; true if it does. One thread at a time."""

    def __init__(self, name: str, *, led: bool, holds: Callable[[], bool] = lambda: True) -> None:
        """`holds` says whether the lock is still held."""
        self._name = name
        self._led = led
        self._holds = holds
        self._checked_s = time.monotonic()

    def __bool__(self) -> bool:
        return self._led

    def check(self) -> None:
        """Look, at most once a second, whether the lock is still held. Raises LeadershipLost if it is not."""
        now_s = time.monotonic()
        if not self._led or now_s - self._checked_s < _CHECK_S:
            return
        self._checked_s = now_s
        if not self._holds():
            raise LeadershipLost(f"this process has lost the lock of the {self._name}: another process may lead")


class LockFile:
    """A file that this process may have locked. The lock ends with the process, whatever ends the process."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle

    def acquire(self, wait_s: float) -> bool:
        """Lock the file, within a time; False if another process holds it for longer."""
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
        """The id of the process that locked the file last."""
        return os.pread(self._handle, 20, 0).decode("ascii", "replace") or "unknown"

    def is_ours(self) -> bool:
        """Whether the path still is the file that was opened; a lock on a file that was removed locks out nobody."""
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
    """A file to lock; what was locked is free at the end of the block. Raises Unavailable."""
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
    """Hold the lock of a file. Raises StoreBusy if another process does not give it back in time, Unavailable."""
    with _lock_file(path) as file:
        if not file.acquire(wait_s):
            raise StoreBusy(f"process {file.holder()} has held {path.name} for {wait_s:g} s: does it hang?")
        yield


@contextmanager
def file_leadership(path: Path, name: str) -> Iterator[Leadership]:
    """Lead by the lock of a file, if no other process does. Raises Unavailable."""
    with _lock_file(path) as file:
        yield Leadership(name, led=file.acquire(0), holds=file.is_ours)


@contextmanager
def advisory_leadership(connection: Connection, name: str, key: int) -> Iterator[Leadership]:
    """Lead by a lock of a Postgres session. The connection is of use to nobody else afterwards if this process led.

    Postgres ends the session, and with it the lock, of a process that is stopped and so does not check it.
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

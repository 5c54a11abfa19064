"""Locks between the processes that share a store. Every wait has a limit, and the loss of a lock is detected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from fraud_ops.control_plane.domain.errors import LeadershipLost, StoreBusy, Unavailable
from fraud_rules.runtime.file_lock import FileLock

__all__ = ["Leadership", "advisory_leadership", "file_leadership", "held_file"]

_CHECK_S: Final = 1.0
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


def _lock_file(path: Path) -> FileLock:
    """Open a lock file. Raises Unavailable."""
    try:
        return FileLock(path, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error


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
        yield Leadership(name, led=file.acquire(), holds=file.is_current)


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

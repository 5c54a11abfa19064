"""Locks on files, between processes of a host. Every wait has a limit.

The kernel releases a lock when the last process that has the file open ends, so a killed process leaves no lock behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fraud_rules.runtime.lifetime import Closing

_SHORTEST_PAUSE_S: Final = 0.000_5
_LONGEST_PAUSE_S: Final = 0.01
_PID_BYTES: Final = 20


class FileLock(Closing):
    """An open file that this process may lock. A child process that inherits the file holds the lock too."""

    def __init__(self, path: Path, mode: int = 0o666) -> None:
        """Open the file; create it with `mode`, less the umask, if it does not exist. Raises OSError."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)

    def acquire(self, wait_s: float = 0.0, *, shared: bool = False) -> bool:
        """Lock the file within a time; False if another process holds it for longer. `shared` admits other readers."""
        operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        deadline_s, pause_s = time.monotonic() + wait_s, _SHORTEST_PAUSE_S
        while not self._locked(operation):
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if not shared:
            self._record_holder()
        return True

    def holder(self) -> str:
        """The id of the process that locked the file last, for a message."""
        return os.pread(self._descriptor, _PID_BYTES, 0).decode("ascii", "replace").strip() or "unknown"

    def fileno(self) -> int:
        """The descriptor, for a child process that is to inherit the lock."""
        return self._descriptor

    def close(self) -> None:
        """Close the file. This releases the lock if no child has inherited it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _locked(self, operation: int) -> bool:
        try:
            fcntl.flock(self._descriptor, operation)
        except BlockingIOError:
            return False
        return True

    def _record_holder(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
            os.pwrite(self._descriptor, str(os.getpid()).ljust(_PID_BYTES).encode(), 0)


@contextmanager
def locked(path: Path, wait_s: float, busy: Callable[[str], Exception], mode: int = 0o666) -> Iterator[None]:
    """Hold the lock of a file. Raises OSError; raises `busy(pid)` if another process keeps the lock for `wait_s`."""
    with FileLock(path, mode) as lock:
        if not lock.acquire(wait_s):
            raise busy(lock.holder())
        yield

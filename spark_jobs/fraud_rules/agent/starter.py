"""Starts one attempt's detector and stays with it: `python -m fraud_rules.agent.starter FOLDER --attempt=ID`.

It outlives the agent, so that whoever is the agent then learns how the detector ended; it keeps the detector's log
within bounds; and it hands a SIGTERM on. Everything it knows is in the attempt's folder.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import IO, Final

from fraud_rules.agent.home import AttemptEnd, AttemptFolder, AttemptOrder
from fraud_rules.agent.members import kill_members
from fraud_rules.runtime.clock import now_ms

__all__ = ["LOG_BYTES", "main"]

LOG_BYTES: Final = 8_388_608
_CHUNK_BYTES = 65_536
_LOOK_S = 0.2
_LOCK_S = 2.0
_SAYS: Final = b"detector: "
_NOTED: Final = {b"detector: running": "running", b"detector: ready": "ready"}
_LINE_BYTES = 2_000


def main(path: str) -> int:
    """0 once the detector has ended and that is noted; 1 when the attempt is not to be started any more."""
    folder = AttemptFolder(Path(path))
    order, lock = folder.order(), _lock(folder)
    if order is None or lock is None or folder.end() is not None:
        return 1
    folder.note("started")
    child = _start(order, lock)

    def hand_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    log = _Log(folder)
    assert child.stdout is not None
    while child.poll() is None:
        log.take(child.stdout, _LOOK_S)
    # What the driver leaves behind, a JVM that stands still say, must neither write nor keep the log open.
    kill_members(order.intent.attempt_id, spare=[os.getpid()])
    while log.take(child.stdout, _LOOK_S):
        pass
    folder.write_end(AttemptEnd(now_ms(), child.returncode, log.said))
    return 0


def _lock(folder: AttemptFolder) -> IO[bytes] | None:
    """The attempt's lock. Who only looks whether it is alive holds it for a moment too."""
    deadline = time.monotonic() + _LOCK_S
    while (lock := folder.lock()) is None and time.monotonic() < deadline:
        time.sleep(_LOCK_S / 100)
    return lock


def _start(order: AttemptOrder, lock: IO[bytes]) -> subprocess.Popen[bytes]:
    """The driver holds the lock too: an attempt is alive as long as one of them is."""
    return subprocess.Popen(
        order.command,
        env={**os.environ, **order.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[lock.fileno()],
    )


class _Log:
    """Writes what the detector says to its log, and begins a new one when that is full; the one before it is kept."""

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._file = folder.log.open("ab")
        self._line = b""
        self.said: str | None = None

    def take(self, output: IO[bytes], wait_s: float) -> bool:
        """What is there, or comes in time; False when nothing did."""
        ready, _, _ = select.select([output], [], [], wait_s)
        chunk = os.read(output.fileno(), _CHUNK_BYTES) if ready else b""
        if not chunk:
            return False
        self._write(chunk)
        *lines, self._line = (self._line + chunk).split(b"\n")
        self._line = self._line[-_LINE_BYTES:]
        for line in lines:
            self._look_at(line)
        return True

    def _write(self, chunk: bytes) -> None:
        if self._file.tell() + len(chunk) > LOG_BYTES:
            self._file.close()
            self._folder.log.replace(self._folder.log.with_name(self._folder.log.name + ".1"))
            self._file = self._folder.log.open("ab")
        self._file.write(chunk)
        self._file.flush()

    def _look_at(self, line: bytes) -> None:
        if line in _NOTED:
            self._folder.note(_NOTED[line])
        elif line.startswith(_SAYS):
            self.said = line.removeprefix(_SAYS)[:_LINE_BYTES].decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

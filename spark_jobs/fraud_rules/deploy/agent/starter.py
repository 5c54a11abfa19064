"""Starts the detector of one attempt and waits for its end: `python -m … starter FOLDER --attempt=ID`.

The starter outlives the agent, so that the next agent learns how the detector ended. It rotates the detector's log and
forwards SIGTERM. All of its state is in the attempt's folder. A full disk there never ends the detector: the starter
drops the output that does not fit, and keeps some bytes free for the record of the end.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import IO, Final

from fraud_rules.deploy.agent.home import AttemptEnd, AttemptFolder, AttemptOrder
from fraud_rules.deploy.agent.members import kill_members
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.file_lock import FileLock

LOG_BYTES: Final = 8_388_608
_CHUNK_BYTES = 65_536
_POLL_S = 0.2
_LOCK_S = 2.0
_PREFIX: Final = b"detector: "
_MARKS: Final = {b"detector: running": "running", b"detector: ready": "ready"}
_LINE_BYTES = 2_000


def main(path: str) -> int:
    """Run the detector to its end and record the end. Return 0, or 1 if the attempt must not start."""
    folder = AttemptFolder(Path(path))
    # A test of the lock by another process also holds it for a moment.
    order, lock = folder.order(), folder.lock(_LOCK_S)
    if order is None or lock is None or folder.end() is not None:
        return 1
    folder.reserve()
    folder.mark("started")
    child = _start(order, lock)

    def forward(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    log = _Log(folder)
    assert child.stdout is not None
    while child.poll() is None:
        log.copy(child.stdout, _POLL_S)
    # A process that the driver leaves behind, for example a hanging JVM, must not write or keep the log open.
    kill_members(order.intent.attempt_id, excluded=[os.getpid()])
    while log.copy(child.stdout, _POLL_S):
        pass
    folder.write_end(AttemptEnd(now_ms(), child.returncode, log.last_words))
    return 0


def _start(order: AttemptOrder, lock: FileLock) -> subprocess.Popen[bytes]:
    """Start the driver. It inherits the lock, so the attempt is alive while the starter or the driver is."""
    return subprocess.Popen(
        order.command,
        env={**os.environ, **order.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[lock.fileno()],
    )


class _Log:
    """Writes the detector's output to its log. When the log is full, it becomes the `.1` file and a new one begins.

    Output that the disk does not accept is dropped. The log says so once there is space again.
    """

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._file: FileIO | None = None
        self._line = b""
        self._message: str | None = None
        self._fault: OSError | None = None
        self._dropped = 0

    @property
    def last_words(self) -> str | None:
        """The last message of the detector, and the fault that keeps output from the log at the moment."""
        if self._fault is None:
            return self._message
        cut = f"the end of its log is missing: {self._fault.strerror}: {self._folder.log}"
        return cut if self._message is None else f"{self._message}; {cut}"

    def copy(self, output: IO[bytes], wait_s: float) -> bool:
        """Copy the output that is available within `wait_s`. Return False if there is none."""
        ready, _, _ = select.select([output], [], [], wait_s)
        chunk = os.read(output.fileno(), _CHUNK_BYTES) if ready else b""
        if not chunk:
            return False
        self._write(chunk)
        *lines, self._line = (self._line + chunk).split(b"\n")
        self._line = self._line[-_LINE_BYTES:]
        for line in lines:
            self._parse(line)
        return True

    def _write(self, chunk: bytes) -> None:
        try:
            if self._dropped:
                self._append(f"\n{self._dropped} bytes of output are missing here: {self._fault}\n".encode())
                self._dropped = 0
            self._append(chunk)
        except OSError as error:
            if self._fault is None:
                self._mark("log-cut")
            self._fault = error
            self._dropped += len(chunk)
            return
        if self._fault is not None:
            self._folder.unmark("log-cut")
        self._fault, self._dropped = None, 0

    def _append(self, chunk: bytes) -> None:
        """Append to the log. Raises OSError. A part of the bytes may be written then."""
        if self._file is None:
            self._file = self._folder.log.open("ab", buffering=0)
        if self._file.tell() + len(chunk) > LOG_BYTES:
            self._file.close()
            self._file = None
            self._folder.log.replace(self._folder.log.with_name(self._folder.log.name + ".1"))
            self._file = self._folder.log.open("ab", buffering=0)
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) :]

    def _mark(self, name: str) -> None:
        with suppress(OSError):
            self._folder.mark(name)

    def _parse(self, line: bytes) -> None:
        if line in _MARKS:
            self._mark(_MARKS[line])
        elif line.startswith(_PREFIX):
            self._message = line.removeprefix(_PREFIX)[:_LINE_BYTES].decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""The detector as a child process of the demo, found again after the demo itself was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from fraud_rules.errors import DetectorFailed
from fraud_rules.process import ProcessHandle

_GRACE_S = 60.0
_LEFT_OVER_GRACE_S = 5.0
_TAIL_CHARS = 300


class DetectorProcess:
    """One detector on one checkpoint; its process group is its own, so that a Ctrl-C in the terminal is not for it."""

    def __init__(self, bootstrap: str, checkpoint: Path, log: Path, handle: Path) -> None:
        """`handle` is the file that tells a later demo what to stop."""
        self.log = log
        self._handle_file = handle
        # One argument, so that no other process has the same: it is how a detector without a handle is found.
        self._marker = f"--checkpoint={checkpoint}"
        self._command = [sys.executable, "-m", "fraud_rules.cli", "detect", f"--bootstrap={bootstrap}", self._marker]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; the log grows where it exists."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        handle = ProcessHandle.of(self._child.pid, self._marker)
        if handle is not None:
            handle.write(self._handle_file)

    @property
    def pid(self) -> int | None:
        """The child's process id; None when none was started."""
        return None if self._child is None else self._child.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that killed it."""
        return None if self._child is None else self._child.poll()

    def failure(self) -> DetectorFailed:
        """What to say when it has ended by itself."""
        return DetectorFailed(f"the detector ended with {self.exit_code()}: {self._said()} (log: {self.log})")

    def stop(self) -> bool:
        """End it after the batch in hand; killed when that takes more than a minute. False when it did not run."""
        handle = None if self._child is None else ProcessHandle.of(self._child.pid, self._marker)
        ended = _end(handle, _GRACE_S)
        if self._child is not None:
            self._child.wait()
        self._handle_file.unlink(missing_ok=True)
        return ended

    def stop_left_over(self) -> bool:
        """End a detector of an earlier demo on this checkpoint, whether or not its handle was kept."""
        known = ProcessHandle.read(self._handle_file)
        handle = known if known is not None and known.process() is not None else ProcessHandle.find(self._marker)
        ended = _end(handle, _LEFT_OVER_GRACE_S)
        self._handle_file.unlink(missing_ok=True)
        return ended

    def _said(self) -> str:
        """The last thing in its log that is not Spark's."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "it said nothing"
        own = [line for line in lines if line.startswith("fraud: ")] or [line for line in lines if line.strip()]
        return own[-1][:_TAIL_CHARS] if own else "it said nothing"


def _end(handle: ProcessHandle | None, grace_s: float) -> bool:
    """End a process, and what it leaves of the processes it started (Spark's JVM, the Python workers)."""
    process = None if handle is None else handle.process()
    if handle is None or process is None:
        return False
    try:
        descendants = process.children(recursive=True)
    except psutil.NoSuchProcess:
        descendants = []
    handle.end(grace_s)
    _, alive = psutil.wait_procs(descendants, timeout=_LEFT_OVER_GRACE_S)
    for each in alive:
        each.kill()
    psutil.wait_procs(alive, timeout=_LEFT_OVER_GRACE_S)
    return True

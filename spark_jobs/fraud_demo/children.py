"""Processes of the demo that outlive it when it is killed, and are found again by the next one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from fraud_rules.errors import DetectorFailed
from fraud_rules.runtime.process import ProcessHandle

__all__ = ["Child", "end_tree"]

_GRACE_S = 70.0
_LEFT_OVER_GRACE_S = 5.0
_TAIL_CHARS = 300


class Child:
    """One process in a session of its own, so that a Ctrl-C in the terminal is not for it.

    `marker` is an argument of its command that no other process has.
    """

    def __init__(self, name: str, command: Sequence[str], marker: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [*command, marker]
        self._marker = marker
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; the log grows where it exists."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def check(self) -> None:
        """Raise DetectorFailed when it has ended by itself."""
        code = None if self._child is None else self._child.poll()
        if code is not None:
            raise DetectorFailed(f"the {self.name} ended with {code}: {self._said()} (log: {self.log})")

    def stop(self) -> bool:
        """End it in order, with what it has started; killed when that takes too long. False when it did not run."""
        if self._child is None or self._child.poll() is not None:
            return False
        ended = end_tree(ProcessHandle.of(self._child.pid, self._marker), _GRACE_S)
        self._child.wait()
        return ended

    def stop_left_over(self) -> bool:
        """End one of an earlier demo."""
        return end_tree(ProcessHandle.find(self._marker), _LEFT_OVER_GRACE_S)

    def _said(self) -> str:
        """The last thing in its log."""
        try:
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return lines[-1][:_TAIL_CHARS] if lines else "it said nothing"


def end_tree(handle: ProcessHandle | None, grace_s: float) -> bool:
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

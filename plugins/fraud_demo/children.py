"""Child processes of the demo. They outlive a killed demo, and the next demo finds and stops them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from fraud_rules.errors import DetectorFailed
from fraud_rules.runtime.process import ProcessHandle, end_tree, start_detached

_GRACE_S = 70.0
_LEFT_OVER_GRACE_S = 5.0
_TAIL_CHARS = 300


class Child:
    """One process in a separate session, so that a Ctrl-C in the terminal does not reach it.

    `marker` is a unique argument of its command.
    """

    def __init__(self, name: str, command: Sequence[str], marker: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [*command, marker]
        self._marker = marker
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process. Its output is appended to the log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._child = start_detached(self._command, self.log)

    def check(self) -> None:
        """Raise DetectorFailed if the process has ended by itself."""
        code = None if self._child is None else self._child.poll()
        if code is not None:
            raise DetectorFailed(f"the {self.name} ended with {code}: {self._last_line()} (log: {self.log})")

    def stop(self) -> bool:
        """End the process and its children, after a while by a kill. Return False if it did not run."""
        if self._child is None or self._child.poll() is not None:
            return False
        ended = end_tree(ProcessHandle.of(self._child.pid, self._marker), _GRACE_S)
        self._child.wait()
        return ended

    def stop_left_over(self) -> bool:
        """End the process of an earlier demo."""
        return end_tree(ProcessHandle.find(self._marker), _LEFT_OVER_GRACE_S)

    def _last_line(self) -> str:
        """The last line of the log."""
        try:
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return lines[-1][:_TAIL_CHARS] if lines else "no output"

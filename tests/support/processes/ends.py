"""The end of a process that a test has started."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

__all__ = ["END_S", "await_end"]

END_S = 180.0


def await_end(process: subprocess.Popen[bytes], said: Path | Callable[[], str], timeout_s: float = END_S) -> int:
    """Wait until a process has ended by itself, and return its exit code. Fails with the end of `said`: its log, or a
    function that returns it."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        text = said.read_text(encoding="utf-8", errors="replace") if isinstance(said, Path) else said()
        raise AssertionError(f"still running after {timeout_s:g} s: {text[-2_000:]}") from None

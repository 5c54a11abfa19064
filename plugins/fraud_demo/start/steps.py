"""Shows the steps of the demo's start: what it waits for, for how long, and how long that took last time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fraud_rules.runtime.atomic_file import write_file


class StartSteps:
    """The steps of a start. `path` has the times of the last start, in seconds by name of the step."""

    def __init__(self, console: Console, path: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._path = path
        self._clock_s = clock_s
        self._times = _read_times(path)

    def run(self, name: str, doing: str, done: str, work: Callable[[], bool]) -> bool:
        """Show `doing` with the elapsed time while `work` runs, then `done` with its length. Keep the length.

        If `work` returns False, the step was interrupted: nothing is shown or kept. On a terminal, the elapsed time
        counts on. Elsewhere, `doing` is one line.
        """
        began_s = self._clock_s()
        if not self._worked(f"{doing}{last_time(self._times.get(name))}", work):
            return False
        took_s = self._clock_s() - began_s
        self._times[name] = round(took_s, 1)
        self._path.parent.mkdir(parents=True, exist_ok=True)  # a fresh checkout has no var/
        write_file(self._path, json.dumps(self._times).encode())
        self._print(f"{done} ({took_s:.0f} s)")
        return True

    def _worked(self, text: str, work: Callable[[], bool]) -> bool:
        if not self._console.is_terminal:
            self._print(text)
            return work()
        columns = (TextColumn("[dim]demo[/dim] "), SpinnerColumn(), TextColumn("{task.description}"))
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as progress:
            progress.add_task(text, total=None)
            return work()

    def _print(self, text: str) -> None:
        self._console.print(f"[dim]demo[/dim]  {text}", soft_wrap=True)


def last_time(seconds: float | None) -> str:
    """The length of a step in the last start, as a suffix; empty without one."""
    return "" if seconds is None else f" (last time {seconds:.0f} s)"


def _read_times(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): float(each) for name, each in found.items() if isinstance(each, int | float)}

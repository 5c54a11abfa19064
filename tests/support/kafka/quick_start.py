"""The options of the JVM of a test's broker."""

from __future__ import annotations

from typing import Final

__all__ = ["QUICK_START"]

# A test's broker runs for minutes and does little: the C2 compiler would use more CPU time than it saves.
QUICK_START: Final = ("-XX:TieredStopAtLevel=1",)

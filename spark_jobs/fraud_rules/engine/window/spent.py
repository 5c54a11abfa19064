"""Which marks can no longer matter.

A cool-down may be set long after the alert that it counts from, up to the longest one that a rule may have. A reset
matters while rows that it covers are retained. The number of suppressed alerts is told by the next alert, whenever that
is. So leaving out a spent mark never changes a result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints

FOREVER_MS = 1 << 60
"""Longer than any cool-down: no alert is too old for one."""


class Horizon(NamedTuple):
    """How far a cell looks back: its retention bound and watermark, and the longest cool-down that a rule may have."""

    bound_ms: int
    watermark_ms: int
    cooldown_ms: int

    def is_past(self, last_ms: int, reset_ms: int) -> bool:
        """Whether neither an alert at `last_ms` nor a reset at `reset_ms` can matter (NONE: there is none)."""
        cool = last_ms == at.NONE or (self.watermark_ms != at.NONE and last_ms <= self.watermark_ms - self.cooldown_ms)
        return cool and (reset_ms == at.NONE or reset_ms < self.bound_ms)


def spent(rows: Ints, horizon: Horizon) -> NDArray[np.bool_]:
    """Which marks (rows of M_*) can no longer matter: bool[m]."""
    last, reset = rows[:, at.M_LAST_TIME], rows[:, at.M_RESET_TIME]
    cool = last == at.NONE
    if horizon.watermark_ms != at.NONE:
        cool |= last <= horizon.watermark_ms - horizon.cooldown_ms
    over = (rows[:, at.M_RESET_SEQ] == at.NONE) | (reset < horizon.bound_ms)
    found: NDArray[np.bool_] = cool & over & (rows[:, at.M_SUPPRESSED] == 0)
    return found

"""Finds spent marks: marks that can no longer affect a result.

A rule edit can set a cool-down long after the alert from which it counts, so an alert counts for the longest cool-down
that a rule may have. A reset counts while rows that it covers are retained. A count of suppressed alerts stays until
the next alert, which reports it. So the removal of a spent mark never changes a result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints


class Horizon(NamedTuple):
    """The age limits of a grouping state: its retention bound, its watermark, and the longest cool-down of any rule."""

    bound_ms: int
    watermark_ms: int
    cooldown_ms: int

    def is_past(self, last_ms: int, reset_ms: int) -> bool:
        """Whether an alert at `last_ms` and a reset at `reset_ms` no longer count (NONE: no alert or no reset)."""
        cool = last_ms == at.NONE or (self.watermark_ms != at.NONE and last_ms <= self.watermark_ms - self.cooldown_ms)
        return cool and (reset_ms == at.NONE or reset_ms < self.bound_ms)


def find_spent(rows: Ints, horizon: Horizon) -> NDArray[np.bool_]:
    """Find the marks (rows of M_*) that can no longer affect a result: bool[m]."""
    last, reset = rows[:, at.M_LAST_TIME], rows[:, at.M_RESET_TIME]
    cool = last == at.NONE
    if horizon.watermark_ms != at.NONE:
        cool |= last <= horizon.watermark_ms - horizon.cooldown_ms
    over = (rows[:, at.M_RESET_SEQ] == at.NONE) | (reset < horizon.bound_ms)
    found: NDArray[np.bool_] = cool & over & (rows[:, at.M_SUPPRESSED] == 0)
    return found

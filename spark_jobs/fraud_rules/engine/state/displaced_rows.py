"""The displaced runs of one batch, in the memory of this process (see `window.displaced`)."""

from __future__ import annotations

import numpy as np

from fraud_rules.engine.state.view import View
from fraud_rules.engine.window import displaced
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import DisplacedRuns, StateArrays


class DisplacedRows:
    """The arrays of the displaced runs beside a view's arrays. They have no memory until `provide`.

    All rows must be merged before the view changes its arrays otherwise, and before another process uses them.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.arrays = view.state
        self.runs = _NO_RUNS

    def provide(self) -> None:
        """Merge all runs, and allocate their memory on first use. Raises StorageFull."""
        self.merge()
        if not len(self.runs.owners):
            self.arrays = _beside(self._view.state, displaced.RUNS)
        self.runs = _runs(displaced.RUNS, len(self._view.state.slots))

    def merge(self) -> None:
        """Merge all runs into the key rows. Raises StorageFull."""
        view = self._view
        if self.runs is _NO_RUNS:
            return
        while not displaced.merge_all(view.state, self.arrays, self.runs, view.measure_arrays):
            view.grow(at.NEED_POOL)
            own = {name: getattr(self.arrays, name) for name in _OWN}
            self.arrays = view.state._replace(**own)


_OWN = ("slots", "pool", "members", "leaves", "blocks_16", "blocks_256", "blocks_4096")
"""The arrays that the displaced runs do not share with the state."""


def _runs(count: int, slots: int) -> DisplacedRuns:
    of_slot, owners = np.zeros(slots, dtype=np.int32), np.zeros(count, dtype=np.int64)
    return DisplacedRuns(of_slot, owners, np.zeros(1, dtype=np.int64), displaced.FAR)


_NO_RUNS = _runs(0, 0)
"""Without memory: the kernel finds no free run, and changes nothing."""


def _beside(state: StateArrays, runs: int) -> StateArrays:
    """The state's arrays, with other arrays in place of those of the key rows.

    The system provides memory only for the pages that are written, so unused runs occupy none.
    """
    rows = runs * displaced.RUN_ROWS
    members = rows if len(state.members) > 1 else 1
    leaves = rows if len(state.leaves) > 1 else 1

    def like(array: np.ndarray, size: int) -> np.ndarray:
        return np.empty((size, array.shape[1]), dtype=array.dtype)

    return state._replace(
        slots=like(state.slots, runs),
        pool=like(state.pool, rows),
        members=like(state.members, members),
        leaves=like(state.leaves, leaves),
        blocks_16=like(state.blocks_16, leaves // 16 + 1),
        blocks_256=like(state.blocks_256, leaves // 256 + 1),
        blocks_4096=like(state.blocks_4096, leaves // 4096 + 1),
    )

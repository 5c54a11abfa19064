"""The arrays that the compiled functions work on, in named bundles. `layout` names their columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


class State(NamedTuple):
    """A cell: two-dimensional int64, but `header` (a vector), `passes` (uint8) and the tables (int32 vectors)."""

    header: Ints
    events: Ints
    passes: NDArray[np.uint8]
    """Per event and filter: whether the event satisfies it. Filter 0 is "all"."""
    id_table: Table
    slots: Ints
    key_table: Table
    pool: Ints
    members: Ints
    """Per pool row and measure of distinct values: its value's row in `distinct` plus one; 0 unknown, -1 none."""
    leaves: Ints
    blocks_16: Ints
    blocks_256: Ints
    blocks_4096: Ints
    marks: Ints
    mark_table: Table
    distinct: Ints
    distinct_table: Table


class Kept(NamedTuple):
    """What is kept along the rows, and where things stand in a row."""

    totals: Ints
    """[total, 3]: TOTAL_*, filter, column of `events`."""
    trees: Ints
    """[tree, 3]: filter, column, 1 for the largest and 0 for the smallest."""
    windows: Ints
    """Width in ms of each window class."""
    distincts: Ints
    """[measure, 3 + n]: filter, window class, number of fields, their columns."""
    key_columns: Ints
    time_column: int
    id_column: int
    key_at: int
    """The column of `slots` where the key's values begin."""


class Rules(NamedTuple):
    """The rules of a plan's versions."""

    starts: Ints
    """Version v evaluates rows [starts[v], starts[v + 1]) of `rows`, ordered by rule id."""
    widest: Ints
    """Per version, the widest window in force for the grouping, ms."""
    rows: Ints
    """[rule, R_*]."""
    shared: int
    """How many numbers there are in R_SHARED."""
    resets: Ints
    """Incarnations of the COUNT_WITH_RESET rules of any version."""
    ratios: NDArray[np.float64]
    """Per rule, the limit in units of the field."""
    scales: NDArray[np.uint64]
    """Per rule, the denominator of that as exact limbs (AVG, STDDEV)."""
    limits: NDArray[np.uint64]
    """Per rule, the magnitude of its numerator."""


class Arrivals(NamedTuple):
    """New transactions in arrival order."""

    rows: Ints
    """Laid out as `events`; E_SLOT and E_SEQ are filled in when taken in."""
    passes: NDArray[np.uint8]
    versions: Ints
    """Per row, the plan's version it is judged under."""


class Results(NamedTuple):
    """What comes of them."""

    outcomes: NDArray[np.int8]
    """ROW_* of each row."""
    lateness_ms: Ints
    """Of late rows: the watermark minus the event time."""
    output: Ints
    """O_* rows, from header[H_OUT] on."""
    lefts: Ints
    """Scratch, one word a window class."""
    shared: Ints
    """Scratch, [R_SHARED, 2]: the row that an aggregate was last read for, and the aggregate."""
    ahead: Ints
    """Scratch, one word a row: its slot where that is known beforehand, else negative."""
    limbs: NDArray[np.uint64]
    """Scratch for `exact`."""

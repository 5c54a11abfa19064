"""The arguments of the compiled functions, in named tuples. `layout` names the columns of the arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


class StateArrays(NamedTuple):
    """The arrays of a grouping state: two-dimensional int64, except `header` (a vector), `passes` (uint8) and the
    hash tables (int32 vectors)."""

    header: Ints
    events: Ints
    passes: NDArray[np.uint8]
    """Per event and filter: whether the event satisfies it. Filter 0 is "all"."""
    id_table: Table
    slots: Ints
    key_table: Table
    pool: Ints
    members: Ints
    """Per pool row and distinct measure: the row of its value in `distinct` plus one; 0: unknown, -1: not counted."""
    leaves: Ints
    blocks_16: Ints
    blocks_256: Ints
    blocks_4096: Ints
    marks: Ints
    mark_table: Table
    distinct: Ints
    distinct_table: Table
    series: Ints
    """[series, Q_*]."""


class StringArrays(NamedTuple):
    """The strings of a grouping state (see `strings`)."""

    ends: Ints
    """Per code, the end of its text in `text`. The text begins at the end of the one before."""
    text: NDArray[np.uint8]
    """The texts in UTF-8."""
    table: Table


class DisplacedRuns(NamedTuple):
    """The displaced runs in use. Their rows are in arrays of their own (see `displaced`)."""

    of_slot: Table
    """Per slot, the number of its run plus one; 0: none. Empty while the runs have no memory."""
    owners: Ints
    """The slot of each run. Empty while the runs have no memory."""
    used: Ints
    """One word: the number of runs in use."""
    far: int
    """A row enters a run if it belongs at least this many rows before the newest row of its key."""


class MeasureArrays(NamedTuple):
    """The measures kept beside the rows, and the positions of the key, time, id and role columns."""

    totals: Ints
    """[total, 4]: TOTAL_*, filter, column of `events`, part of a series (see `Measures`)."""
    trees: Ints
    """[tree, 4]: filter, column, 1 for the largest and 0 for the smallest, part of a series."""
    windows: Ints
    """[window class, W_*]."""
    distincts: Ints
    """[measure, 3 + n]: filter, window class, number of fields, their columns."""
    key_columns: Ints
    time_column: int
    id_column: int
    role_column: int
    """A transaction has one row for each value in this column. In a grouping by fields, it is `id_column`."""
    key_at: int
    """The first column of `slots` with the key's values."""


class RuleArrays(NamedTuple):
    """The rules of a plan's versions."""

    starts: Ints
    """Version v evaluates rows [starts[v], starts[v + 1]) of `rows`, ordered by rule id."""
    widest: Ints
    """Per version, the widest window in force for the grouping, ms."""
    rows: Ints
    """[rule, R_*]. Behind the rules of all versions, the conditions of the rules (see R_FIRST_CONDITION)."""
    baselines: Ints
    """[rule, B_*]; zeros for a rule without a baseline, and for a condition."""
    shared: int
    """The number of different values in R_SHARED."""
    row_limits: int
    """The number of different values in R_LIMIT, without -1."""
    long_starts: Ints
    """Version v has the long windows [long_starts[v], long_starts[v + 1]) of `long_windows`."""
    long_windows: Ints
    """Window classes: each is a long window and its baseline together."""
    resets: Ints
    """Incarnations of the COUNT_WITH_RESET rules of any version."""
    ratios: NDArray[np.float64]
    """Per rule, the limit in units of the field; with a baseline, the factor of its total."""
    scales: NDArray[np.uint64]
    """Per rule, the denominator of that limit as exact limbs (AVG, STDDEV)."""
    limits: NDArray[np.uint64]
    """Per rule, the magnitude of that limit's numerator as exact limbs."""


class Arrivals(NamedTuple):
    """New transactions in arrival order."""

    rows: Ints
    """Rows in the layout of `events`. The kernel sets E_SLOT and E_SEQ when it accepts a row."""
    passes: NDArray[np.uint8]
    """Per row: `StateArrays.passes` of the row, then whether it satisfies each condition of the plan."""
    versions: Ints
    """Per row, the plan's version that evaluates it."""
    calendar_starts: Ints
    """Per row and calendar window, its start in epoch ms; NONE: the row has no such window."""
    limits: RuleArrays
    """Per row from `limits_from` on, then per R_LIMIT: a rule with the limit of that row (see `state.row_limits`)."""
    limits_from: int


class ResultArrays(NamedTuple):
    """The results of arrivals, and scratch memory."""

    outcomes: NDArray[np.int8]
    """The ROW_* of each row."""
    lateness_ms: Ints
    """For late rows, the watermark minus the event time; otherwise 0."""
    output: Ints
    """O_* rows, from header[H_OUT] on."""
    lefts: Ints
    """Scratch, two words per window class: the first offset of the window at the present row among the key rows, or -1;
    then, for all classes, its first offset in the displaced run."""
    shared: Ints
    """Scratch, [R_SHARED, 2]: the last row for which an aggregate was computed, and the aggregate."""
    ahead: Ints
    """Scratch, one word per row: the row's slot if its key was known in advance, otherwise negative."""
    limbs: NDArray[np.uint64]
    """Scratch for the arithmetic of `exact`."""
    own_limits: int
    """The address of a function of a row and a rule (int64), which sets the limits of the conditions of the rule that
    read its own aggregate. The aggregate is in the next output row (O_*). 0: no rule has such conditions."""
    timed_every: int
    """The kernel times the rules at each row whose number is a multiple of this; 0: at no row."""
    timings: Ints
    """[rule, 2]: the cycles that the rule took at timed rows, and their number."""


class KernelArrays(NamedTuple):
    """The arguments of one call of the kernel (see `advance`), for the functions that evaluate."""

    state: StateArrays
    side: StateArrays
    measures: MeasureArrays
    rules: RuleArrays
    arrivals: Arrivals
    results: ResultArrays
    explain: int


class EvaluatedRow(NamedTuple):
    """The row that the kernel evaluates. All its windows end at `last` and `side_last`."""

    number: int
    """Its row of `Arrivals`."""
    slot: int
    run: int
    """The displaced run of its key, or NO_RUN."""
    time: int
    """Its event time."""
    last: int
    """The offset of the newest key row that is not after it."""
    side_last: int
    """The offset of the newest displaced row that is not after it; -1: none."""


class Span(NamedTuple):
    """The key rows [first, last] and the displaced rows [side_first, side_last] of a key. Either part may be empty."""

    first: int
    last: int
    side_first: int
    side_last: int

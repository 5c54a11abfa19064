"""The series of long windows in the arrays of a grouping state: their numbers, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np

from fraud_rules.engine.state.series_sums import NO_SUMS, SeriesHead, StepSums, sums_of_columns
from fraud_rules.engine.state.view import View
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints
from fraud_rules.engine.window.series import step_sums
from fraud_rules.model.transaction import Column


def series_in(view: View) -> list[SeriesHead]:
    """The series that have begun and are not over."""
    rows = zip(view.measures.series, view.state.series.tolist(), strict=True)
    return [
        SeriesHead(
            version,
            row[at.Q_BEGAN],
            row[at.Q_BOUND],
            row[at.Q_SINCE],
            bool(row[at.Q_IS_WARM]),
            row[at.Q_ENDED],
            row[at.Q_HISTORY],
        )
        for version, row in rows
        if row[at.Q_BEGUN]
    ]


def put_series(view: View, series: Iterable[SeriesHead]) -> None:
    """Replace the numbers of all series. A series without measures is left out: no rule needs it."""
    rows, known = view.state.series, view.measures.series
    rows[:] = 0
    for each in series:
        if each.version in known:
            row = rows[known.index(each.version)]
            row[at.Q_BEGUN], row[at.Q_BEGAN], row[at.Q_BOUND] = 1, each.began_ms, each.bound_ms
            row[at.Q_SINCE], row[at.Q_IS_WARM], row[at.Q_ENDED] = each.since_ms, each.is_warm, each.ended_ms
            row[at.Q_HISTORY] = each.history_ms


def aligned_series(series: Iterable[SeriesHead], others: Iterable[SeriesHead]) -> list[SeriesHead]:
    """The series of an epoch, also those that have begun in another epoch, with the B of both."""
    known = {each.version: each for each in series}
    for each in others:
        mine = known.get(each.version)
        if mine is None:
            known[each.version] = msgspec.structs.replace(each, since_ms=at.NONE, is_warm=False)
        else:
            mine.bound_ms = max(mine.bound_ms, each.bound_ms)
    return list(known.values())


def without_ended(
    series: Sequence[SeriesHead], in_force: AbstractSet[int | None], now_ms: int, grace_ms: int
) -> list[SeriesHead]:
    """The series without those that ended `grace_ms` ago. They remember since when they are not in force."""
    for each in series:
        if each.version in in_force:
            each.ended_ms = at.NONE
        elif each.ended_ms == at.NONE:
            each.ended_ms = now_ms
    return [each for each in series if each.ended_ms == at.NONE or now_ms < each.ended_ms + grace_ms]


def sums_in(view: View, keys_of: Callable[[Ints], tuple[Column, ...]]) -> StepSums:
    """The sums that still count, of all rows that may become parts of sums. `keys_of` returns the keys of slots."""
    if not view.measures.series:
        return NO_SUMS
    step_sums.fold_all(view.state, view.measure_arrays)
    n = int(step_sums.count_sums(view.state))
    slots, times = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    totals = np.empty((n, len(view.measures.totals)), dtype=np.int64)
    leaves = np.empty((n, len(view.measures.trees)), dtype=np.int64)
    step_sums.read_sums(view.state, slots, times, totals, leaves)
    return sums_of_columns(view.measures, times, totals, leaves, keys_of(slots))

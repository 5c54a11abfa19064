"""The windows of a row under evaluation: spans of the key rows, and of the displaced rows of its key."""

from __future__ import annotations

from fraud_rules.engine.window.bundles import EvaluatedRow, KernelArrays, Span
from fraud_rules.engine.window.compiler import inlined
from fraud_rules.engine.window.displaced import NO_RUN
from fraud_rules.engine.window.key_rows import lowest, move_left, opening, sum_of_part
from fraud_rules.engine.window.layout import NONE
from fraud_rules.engine.window.series.step_sums import complete_from


@inlined
def window_of(arrays: KernelArrays, row: EvaluatedRow, w: int) -> Span:
    """Window `w` of a row; `first` is -1 if the row has no such window. The first call for a row moves its left end."""
    lefts, windows = arrays.results.lefts, arrays.measures.windows.shape[0]
    first = lefts[w]
    if first < 0:
        opens = opening(arrays.measures, arrays.arrivals, row.number, w, row.time)
        if opens == NONE:
            return Span(-1, -1, 0, -1)
        opens = max(opens, lowest(arrays.state, arrays.measures, w))
        first = lefts[w] = move_left(arrays.state, row.slot, w, opens)
        if row.run != NO_RUN:
            lefts[windows + w] = move_left(arrays.side, row.run, w, opens)
    side_first = 0 if row.run == NO_RUN else lefts[windows + w]
    return Span(first, row.last, side_first, row.side_last)


@inlined
def is_complete(arrays: KernelArrays, row: EvaluatedRow, w: int) -> bool:
    """Whether window `w` of a row has all rows. True for a row without such a window."""
    opens = opening(arrays.measures, arrays.arrivals, row.number, w, row.time)
    return bool(opens == NONE or opens >= complete_from(arrays.state, arrays.measures, w))


@inlined
def rows_in(span: Span) -> int:
    """The number of rows of a span."""
    return span.last - span.first + 1 + span.side_last - span.side_first + 1


@inlined
def sum_in(arrays: KernelArrays, row: EvaluatedRow, span: Span, column: int) -> int:
    """The sum of a pool column over a span."""
    return sum_of_part(arrays.state, row.slot, span.first, span.last, column) + sum_of_part(
        arrays.side, row.run, span.side_first, span.side_last, column
    )

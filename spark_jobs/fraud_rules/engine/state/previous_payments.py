"""Evaluates the conditions and limits that read the previous payment of their key.

Conditions and limits are evaluated in whole columns before the kernel accepts the rows, but the previous payment of a
row can be a row of the same batch. So the rows of a grouping with such a rule take two passes for each call of the
kernel:

1. `window.previous.search` finds the previous payment of each row in each class (a filter and a window), as the state
   stands before the call. It changes nothing.
2. The fields of these payments are gathered as columns, from the events of the state and from the rows of the call. All
   rows of rules with the same class read the same columns. Then conditions and limits are evaluated as any others.
3. The kernel accepts and evaluates the rows. It knows nothing of previous payments.

The calls are short (see `grouping_state`), so a walk among the rows of one call is, too. Groupings without such a rule
have one pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.event_rows import PredicateMasks, limit_values
from fraud_rules.engine.state.rule_sample import RuleSample
from fraud_rules.engine.state.view import View
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Arrivals, Ints
from fraud_rules.engine.window.plan import GroupingPlan, Measures
from fraud_rules.engine.window.previous.search import C_WIDTH, NO_ROW, PreviousSearch, find_previous, first_alike
from fraud_rules.model.expressions.expression import Columns
from fraud_rules.model.expressions.lookups import Lookup
from fraud_rules.model.expressions.previous import previous_column
from fraud_rules.model.rule import PreviousRows
from fraud_rules.model.schema import ID_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column

ColumnsOf: TypeAlias = Callable[[Sequence[Lookup], int, int, Columns], Columns]
"""Returns the columns that expressions with these look-ups read, for the rows [start, end) of a batch: the given ones,
those of the batch, and those of the look-ups."""

PreviousColumns: TypeAlias = Mapping[PreviousRows, Mapping[str, Column]]
"""By class and field, the values of the previous payments of n rows. The id is always among the fields."""

_LEAST_TABLE: Final = 16


class PreviousPayments:
    """The previous payments of the rows that a grouping state accepts, and what depends on them.

    `passes` uint8[n, 1 + filters + conditions] are those of the masks, with the results of the conditions that read the
    previous payment. A row that is not evaluated satisfies none of these.
    """

    def __init__(
        self,
        plan: GroupingPlan,
        schema: TransactionSchema,
        masks: PredicateMasks,
        columns_of: ColumnsOf,
        sample: RuleSample | None,
    ) -> None:
        self.passes = masks.passes.copy()
        self._plan = plan
        self._schema = schema
        self._limits = masks.limits
        self._columns_of = columns_of
        self._sample = sample
        self._classes = np.array([_class_of(each, plan.measures) for each in plan.previous]).reshape(-1, C_WIDTH)
        self._fields = [sorted({ID_FIELD} | plan.judged[each].previous_fields) for each in plan.previous]
        self._found: list[tuple[Sequence[Column], Sequence[Mapping[str, Column]]]] = []

    def judge(
        self,
        view: View,
        arrivals: Arrivals,
        start: int,
        max_out_of_orderness_ms: int,
        column_of: Callable[[int, Ints, NDArray[np.bool_]], Column],
    ) -> Sequence[Column]:
        """Evaluate the conditions for the arrivals from row `start` on, and return the values of all limits.

        The view has no displaced runs. `column_of` converts values of a field as the view stores them.
        """
        end = len(arrivals.rows)
        rows: Any = slice(start, end)
        limits = [each.take(rows) for each in self._limits]
        search = self._search(view, arrivals, start, max_out_of_orderness_ms)
        columns = [
            self._gather(fields, search.found[:, number], view.state.events, arrivals.rows, column_of)
            for number, fields in enumerate(self._fields)
        ]
        for number, previous in enumerate(self._plan.previous):
            named = {previous_column(name): column for name, column in columns[number].items()}
            read = self._columns_of(self._plan.judged[previous].lookups, start, end, named)
            self._judge(previous, read, rows, search.judged, limits)
        self._found.append((limits, columns))
        return limits

    def named_columns(self, previous: PreviousRows, i: int) -> Columns:
        """The columns with the previous payment of row i of the last `judge`, by the names in expressions."""
        columns = self._found[-1][1][self._plan.previous.index(previous)]
        return {previous_column(name): column.take(np.array([i])) for name, column in columns.items()}

    def limits(self) -> Sequence[Column]:
        """The values of all limits for all rows."""
        parts = [limits for limits, _ in self._found]
        return [Column.concat(each) for each in zip(*parts, strict=True)]

    def columns(self) -> PreviousColumns:
        """The values of the previous payments of all rows."""
        found: dict[PreviousRows, Mapping[str, Column]] = {}
        for number, previous in enumerate(self._plan.previous):
            parts = [columns[number] for _, columns in self._found]
            found[previous] = {name: Column.concat([part[name] for part in parts]) for name in self._fields[number]}
        return found

    def _search(self, view: View, arrivals: Arrivals, start: int, max_out_of_orderness_ms: int) -> PreviousSearch:
        """Find the previous payments of the arrivals from row `start` on."""
        n, measures = len(arrivals.rows) - start, view.measure_arrays
        classes = len(self._classes)
        search = PreviousSearch(
            classes=self._classes,
            found=np.full((n, classes), NO_ROW, dtype=np.int64),
            judged=np.zeros(n, dtype=np.bool_),
            keys=_numbers(arrivals.rows, start, measures.key_columns),
            identities=_numbers(
                arrivals.rows, start, np.append(measures.key_columns, [measures.id_column, measures.role_column])
            ),
            accepted=np.full(n, NO_ROW, dtype=np.int64),
            newest=np.full((classes, n), NO_ROW, dtype=np.int64),
            links=np.empty((classes, n), dtype=np.int64),
        )
        find_previous(view.state, measures, arrivals, self._plan.rules.widest, search, max_out_of_orderness_ms, start)
        return search

    def _gather(
        self,
        fields: Sequence[str],
        found: Ints,
        events: Ints,
        rows: Ints,
        column_of: Callable[[int, Ints, NDArray[np.bool_]], Column],
    ) -> dict[str, Column]:
        """The fields of previous payments, which are rows of `events` or of the arrivals (see `PreviousSearch`)."""
        retained, new, exists = found >= 0, found < NO_ROW, found != NO_ROW
        of_events, of_rows = found[retained], -2 - found[new]

        def gathered(column: int) -> Ints:
            values = np.zeros(len(found), dtype=np.int64)
            values[retained], values[new] = events[of_events, column], rows[of_rows, column]
            return values

        nulls, columns = gathered(at.E_NULLS), dict[str, Column]()
        for name in fields:
            i = self._schema.names.index(name)
            valid = exists & ((nulls >> i) & 1 == 0)
            columns[name] = column_of(i, np.where(valid, gathered(at.E_FIELDS + i), 0), valid)
        return columns

    def _judge(
        self, previous: PreviousRows, columns: Columns, rows: Any, judged: NDArray[np.bool_], limits: list[Column]
    ) -> None:
        """Evaluate the conditions and limits of one class for some rows."""
        n, sample = len(judged), self._sample
        first = len(self._plan.measures.filters)
        for number, condition in enumerate(self._plan.conditions, start=first):
            if condition.previous == previous:
                began = time.thread_time_ns()
                self.passes[rows, number + 1] = condition.expression.mask(columns, n) & judged
                if sample is not None:
                    sample.predicates_ns[number] += time.thread_time_ns() - began
        for number, limit in enumerate(self._plan.limits):
            if limit.previous == previous and not limit.reads_own:
                began = time.thread_time_ns()
                limits[number] = limit_values(limit, columns, n)
                if sample is not None:
                    sample.limits_ns[number] += time.thread_time_ns() - began


def _class_of(previous: PreviousRows, measures: Measures) -> tuple[int, int, int]:
    """A class as C_*."""
    number = 0 if previous.filter is None else 1 + measures.filters.index(previous.filter)
    return number, measures.count_column(number), measures.windows.index(previous.window)


def _numbers(rows: Ints, start: int, columns: Ints) -> Ints:
    """For each row from `start` on, the number of the first one with the same values of some columns."""
    n = len(rows) - start
    first, table = np.empty(n, dtype=np.int64), np.zeros(max(_LEAST_TABLE, 1 << (2 * n).bit_length()), dtype=np.int32)
    first_alike(rows, start, columns, table, first)
    return first

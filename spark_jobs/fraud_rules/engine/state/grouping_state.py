"""The state of one grouping in one key group and epoch: retained transactions, marks, and structures built from them.

The retained rows and the marks are the source of truth. Slots, pool, trees and hash tables derive from them and the
rules in force. They are rebuilt when the rules need other measures, or when most of the memory holds expired rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.arrays import Arrays
from fraud_rules.engine.state.strings import StringTable
from fraud_rules.engine.state.view import View
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.window import hash_tables, key_rows, resets
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Arrivals, Ints, ResultArrays
from fraud_rules.engine.window.exact import SCRATCH_ROWS, WIDE
from fraud_rules.engine.window.kernel import advance
from fraud_rules.engine.window.plan import GroupingPlan, Measures, compile_plan
from fraud_rules.engine.window.spent import FOREVER_MS, Horizon, find_spent
from fraud_rules.model.ruleset import GroupingInForce
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_SCATTERED_ABOVE = 1024
_ROWS_A_CALL = 2048
"""Rows that the kernel accepts between two reports of progress. They take seconds at most, even far out of order."""


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """The results for n rows: `outcomes` int8[n] of ROW_*, `lateness_ms` int64[n] (0 unless late), `output`
    int64[m, O_WIDTH]."""

    outcomes: NDArray[np.int8]
    lateness_ms: Ints
    output: Ints


@dataclass(frozen=True, slots=True)
class Marks:
    """Resets and cool-downs by (rule incarnation, key): `rows` int64[m, M_WIDTH], whose M_SLOT is valid only inside its
    grouping state, and `keys`, one Column of m rows per grouping field."""

    rows: Ints
    keys: tuple[Column, ...]


class GroupingState:
    """The state of one (key group, grouping, epoch). Not thread-safe; the key group's lock guards shared arrays."""

    def __init__(
        self,
        schema: TransactionSchema,
        fields: tuple[str, ...],
        arrays: Arrays,
        longest_cooldown_ms: int = FOREVER_MS,
    ) -> None:
        self._schema = schema
        self._longest_cooldown_ms = longest_cooldown_ms
        self._time = at.E_FIELDS + schema.names.index(TIME_FIELD)
        identity = at.E_FIELDS + schema.names.index(ID_FIELD)
        self._key_fields = [schema.names.index(name) for name in fields]
        self._key_columns: Ints = np.array([at.E_FIELDS + i for i in self._key_fields], dtype=np.int64)
        self._row_width = at.E_FIELDS + len(schema.fields)
        self._view = View(arrays, self._row_width, self._key_columns, self._time, identity)
        self._plan: GroupingPlan | None = None
        self.header = self._view.header
        self._strings = StringTable(self.header, arrays)
        self._output = np.empty((256, at.O_WIDTH), dtype=np.int64)
        self._limbs = np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)

    @classmethod
    def create(
        cls,
        schema: TransactionSchema,
        fields: tuple[str, ...],
        arrays: Arrays,
        longest_cooldown_ms: int = FOREVER_MS,
    ) -> GroupingState:
        """Create an empty state."""
        state = cls(schema, fields, arrays, longest_cooldown_ms)
        generation = state.header[at.H_GENERATION]
        state.header[:] = 0
        state.header[at.H_GENERATION] = generation
        state.header[[at.H_WATERMARK, at.H_BOUND, at.H_FIRST]] = at.NONE
        state._view.clear(state._view.measures, 0, 0, 0)
        return state

    @property
    def retained(self) -> int:
        """The number of retained transactions, including expired ones that are not yet cleaned up."""
        return int(self.header[at.H_EVENTS])

    @property
    def retained_marks(self) -> int:
        """The number of marks, including spent ones that are not yet cleaned up."""
        return int(self.header[at.H_MARKS])

    @property
    def horizon(self) -> Horizon:
        """The times before which rows and marks stop counting."""
        header = self.header
        return Horizon(int(header[at.H_BOUND]), int(header[at.H_WATERMARK]), self._longest_cooldown_ms)

    @property
    def retained_bytes(self) -> int:
        """The size in bytes of the arrays."""
        self._refresh()
        return self._view.nbytes

    @property
    def measures(self) -> Measures:
        """The measures kept beside the rows."""
        self._refresh()
        return self._view.measures

    def plan(self, versions: Sequence[GroupingInForce]) -> GroupingPlan:
        """Compile the grouping's versions. The plan reuses the present measures if they suffice."""
        self._refresh()
        return compile_plan(versions, self._schema, self._view.measures)

    def accept(
        self,
        batch: TransactionBatch,
        versions: Ints,
        plan: GroupingPlan,
        max_out_of_orderness_ms: int,
        explain: bool,
        progress: TaskProgress = UNREPORTED,
    ) -> AcceptResult:
        """Accept transactions in arrival order, and evaluate them.

        `versions` int64[n] holds the plan's version for each row. With `explain`, the output has every evaluation,
        otherwise only alerts and suppressed alerts.
        """
        self._refresh()
        self._prepare_for(plan)
        n = len(batch)
        rows, passes = self._rows_of(batch), _evaluate_filters(plan.measures, batch.columns, n)
        outcomes, lateness_ms = np.zeros(n, dtype=np.int8), np.zeros(n, dtype=np.int64)
        lefts, ahead = np.empty(len(plan.measures.windows_ms), dtype=np.int64), np.empty(n, dtype=np.int64)
        shared = np.full((plan.rules.shared, 2), -1, dtype=np.int64)
        self.header[at.H_OUT] = 0
        start, done, end = 0, 0, min(n, _ROWS_A_CALL)
        while True:
            arrivals = Arrivals(rows[:end], passes[:end], versions[:end])
            results = ResultArrays(outcomes, lateness_ms, self._output, lefts, shared, ahead, self._limbs)
            start, need = advance(
                self._view.state,
                self._view.measure_arrays,
                plan.rules,
                arrivals,
                results,
                max_out_of_orderness_ms,
                int(explain),
                start,
            )
            if need != at.DONE:
                self._grow(need)
                continue
            progress.evaluated(end - done)
            done = end
            if end == n:
                return AcceptResult(outcomes, lateness_ms, self._output[: self.header[at.H_OUT]].copy())
            end = min(n, end + _ROWS_A_CALL)

    def _grow(self, need: int) -> None:
        """Make the room that the kernel needs: free the space of expired rows, or grow the arrays."""
        if need == at.NEED_OUTPUT:
            used = int(self.header[at.H_OUT])
            grown = np.empty((2 * len(self._output), at.O_WIDTH), dtype=np.int64)
            grown[:used] = self._output[:used]
            self._output = grown
        elif need == at.NEED_MARKS:
            marks = self._view.state.marks[: self.retained_marks]
            if 2 * int(np.count_nonzero(find_spent(marks, self.horizon))) > self.retained_marks:
                self.compact()
            else:
                self._view.grow(need)
        elif self._is_scattered():
            self.compact()
        elif need == at.NEED_EVENTS and 2 * int(np.count_nonzero(self._live_mask())) <= self.retained:
            key_rows.trim(self._view.state, self._view.measure_arrays, np.empty(self.retained, dtype=np.int64))
        else:
            self._view.grow(need)

    def _is_scattered(self) -> bool:
        """Whether most keys have no rows left, or most of the pool is space that moved keys have left behind."""
        slots = int(self.header[at.H_SLOTS])
        if slots >= _SCATTERED_ABOVE and 2 * int(key_rows.count_idle_slots(self._view.state)) > slots:
            return True
        return int(self.header[at.H_POOL]) > 8 * self.retained + _SCATTERED_ABOVE

    def rows(self) -> TransactionBatch:
        """The retained rows that still count, in arrival order. Partitions and offsets are not kept, so they are 0."""
        self._refresh()
        return self._batch_of(self._view.state.events[: self.retained][self._live_mask()])

    def sequence(self) -> Ints:
        """The arrival number of each row of `rows()`."""
        self._refresh()
        return self._view.state.events[: self.retained, at.E_SEQ][self._live_mask()]

    def marks(self) -> Marks:
        """The marks that can still matter."""
        self._refresh()
        rows = self._view.state.marks[: self.retained_marks]
        return self._with_keys(rows[~find_spent(rows, self.horizon)])

    def marks_of(self, rules: Ints, slots: Ints) -> Marks:
        """The marks of the pairs (rule incarnation, slot). Each mark occurs once, even for repeated pairs."""
        self._refresh()
        found = np.zeros(int(self.header[at.H_MARKS]), dtype=np.bool_)
        hash_tables.find_marks(self._view.state, rules, slots, found)
        return self._with_keys(self._view.state.marks[np.flatnonzero(found)])

    def _with_keys(self, rows: Ints) -> Marks:
        keys = self._view.state.slots[rows[:, at.M_SLOT], self._view.measure_arrays.key_at :]
        return Marks(rows, tuple(self._column(i, keys[:, k], None) for k, i in enumerate(self._key_fields)))

    def slots_of(self, batch: TransactionBatch) -> Ints:
        """The slot of each row's key. The rows must have been accepted before."""
        return self._slots_for(self._rows_of(batch))

    def load(self, batch: TransactionBatch, sequence: Ints, marks: Sequence[Marks]) -> None:
        """Replace the content by retained rows in arrival order and by marks. Later marks override earlier ones."""
        self._strings.clear()
        rows = self._rows_of(batch)
        rows[:, at.E_SEQ] = sequence
        self._rebuild(rows, marks, self._view.measures)

    def compact(self) -> None:
        """Remove the rows and marks that no longer count."""
        self._rebuild_with(self.marks(), self._view.measures)

    def _refresh(self) -> None:
        if self._view.refresh(partial(Measures.decode, schema=self._schema)):
            self._strings.forget()

    def _live_mask(self) -> NDArray[np.bool_]:
        alive: NDArray[np.bool_] = self._view.state.events[: self.retained, self._time] >= self.header[at.H_BOUND]
        return alive

    def _rows_of(self, batch: TransactionBatch) -> Ints:
        """Convert the batch to the layout of `events`."""
        rows = np.zeros((len(batch), self._row_width), dtype=np.int64)
        rows[:, at.E_APPEND] = batch.append_ms
        for i, name in enumerate(self._schema.names):
            column = batch.columns.get(name)
            if column is None:
                rows[:, at.E_NULLS] |= _null_bit(i)
                continue
            rows[:, at.E_FIELDS + i] = self._codes(column)
            if column.valid is not None:
                rows[~column.valid, at.E_NULLS] |= _null_bit(i)
        return rows

    def _codes(self, column: Column) -> Ints:
        """The column's stored values. Strings are stored by codes of this state."""
        return self._strings.intern(column.dictionary)[column.values] if column.dictionary else column.values

    def _batch_of(self, events: Ints) -> TransactionBatch:
        nulls = events[:, at.E_NULLS]
        columns = {
            field.name: self._column(i, events[:, at.E_FIELDS + i], (nulls >> i) & 1 == 0 if field.nullable else None)
            for i, field in enumerate(self._schema.fields)
        }
        nowhere = np.zeros(len(events), dtype=np.int64)
        return TransactionBatch(events[:, at.E_APPEND].copy(), nowhere.astype(np.int32), nowhere, columns)

    def _column(self, i: int, values: Ints, valid: NDArray[np.bool_] | None) -> Column:
        is_text = self._schema.fields[i].type is FieldType.STRING
        return self._strings.column(values, valid) if is_text else Column(np.ascontiguousarray(values), valid, None)

    def _prepare_for(self, plan: GroupingPlan) -> None:
        """Rebuild the measures or recount the resets if the plan requires this."""
        if self._view.measures != plan.measures:
            self._rebuild_with(self.marks(), plan.measures)
        elif self._plan is not plan and len(plan.rules.resets):
            resets.recount_revived(self._view.state)
        self._plan = plan

    def _rebuild_with(self, marks: Marks, measures: Measures) -> None:
        batch, sequence = self.rows(), self.sequence()
        self._strings.clear()
        rows = self._rows_of(batch)
        rows[:, at.E_SEQ] = sequence
        self._rebuild(rows, (marks,), measures)

    def _rebuild(self, rows: Ints, marks: Sequence[Marks], measures: Measures) -> None:
        """Rebuild all arrays from the rows (in the layout of `events`, in arrival order) and the marks."""
        n, n_marks, header, view = len(rows), sum(len(each.rows) for each in marks), self.header, self._view
        view.clear(measures, n + (n >> 1), n + n_marks, 2 * n_marks)
        for each in marks:
            self._load_marks(each)
        rows[:, at.E_SLOT] = self._slots_for(rows)
        view.state.events[:n] = rows
        header[at.H_EVENTS] = n
        view.state.passes[:n] = _evaluate_filters(measures, self._batch_of(rows).columns, n)
        counts = np.bincount(rows[:, at.E_SLOT], minlength=int(header[at.H_SLOTS]))
        needed = int(key_rows.assign_ranges(view.state, counts))
        view.open_pool(needed + (needed >> 2))
        key_rows.insert_all(view.state, view.measure_arrays, np.argsort(rows[:, self._time], kind="stable"))
        resets.recount_revived(view.state)

    def _load_marks(self, marks: Marks) -> None:
        keyed = np.zeros((len(marks.rows), self._row_width), dtype=np.int64)
        for place, column in zip(self._key_columns, marks.keys, strict=True):
            keyed[:, place] = self._codes(column)
        hash_tables.load_marks(self._view.state, marks.rows, self._slots_for(keyed))

    def _slots_for(self, rows: Ints) -> Ints:
        slots = np.empty(len(rows), dtype=np.int64)
        hash_tables.assign_slots(self._view.state, self._view.measure_arrays, rows, slots)
        return slots


def _null_bit(i: int) -> int:
    """The null bit of field `i`, as an int64."""
    return 1 << i if i < 63 else at.NONE


def _evaluate_filters(measures: Measures, columns: Mapping[str, Column], n: int) -> NDArray[np.uint8]:
    """Evaluate all filters for all rows: uint8[n, filters + 1]. The first column is 1 for all rows."""
    passes = np.ones((n, len(measures.filters) + 1), dtype=np.uint8)
    for number, predicate in enumerate(measures.filters, start=1):
        passes[:, number] = predicate.mask(columns, n)
    return passes

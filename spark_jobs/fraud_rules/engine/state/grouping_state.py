"""The state of one grouping in one key group and epoch: retained rows, marks, and the arrays that derive from them.

The retained rows and the marks are the source of truth. All other arrays (see `layout`) derive from them and from the
rules in force. The state rebuilds these arrays when the rules need other measures, or when most of the memory holds
expired rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.arrays import Arrays
from fraud_rules.engine.state.displaced_rows import DisplacedRows
from fraud_rules.engine.state.event_rows import (
    PredicateMasks,
    calendar_starts,
    event_rows,
    filter_masks,
    predicate_masks,
)
from fraud_rules.engine.state.own_limits import OwnLimits
from fraud_rules.engine.state.plans import PLANS, shared_measures
from fraud_rules.engine.state.previous_payments import ColumnsOf, PreviousColumns, PreviousPayments
from fraud_rules.engine.state.row_limits import row_limits
from fraud_rules.engine.state.rule_sample import NOT_TIMED, RuleSample
from fraud_rules.engine.state.series_sums import NO_SUMS, U_TIME, SeriesHead, StepSums
from fraud_rules.engine.state.spent import Horizon, find_spent
from fraud_rules.engine.state.strings import StringTable
from fraud_rules.engine.state.view import View
from fraud_rules.engine.state.view_series import put_series, series_in, sums_in
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.window import hash_tables, key_rows, resets
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Arrivals, Ints, ResultArrays
from fraud_rules.engine.window.evaluation.exact import SCRATCH_ROWS, WIDE
from fraud_rules.engine.window.kernel import advance
from fraud_rules.engine.window.plan import NO_MEASURES, GroupingPlan, Measures, storing_plan
from fraud_rules.engine.window.series import step_sums
from fraud_rules.model.expressions.expression import Columns
from fraud_rules.model.expressions.lookups import Lookup
from fraud_rules.model.output import MarkUpdate
from fraud_rules.model.ruleset import GroupingInForce
from fraud_rules.model.schema import ID_FIELD, ROLE, TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_SCATTERED_ABOVE = 1024
"""A state with fewer slots, and fewer unused rows in the pool, is not compacted for its scattered key rows."""

_BYTES_PER_STRING = 24
"""The bytes of a string beside its text: its end, its place in the hash table, and the free room of both."""

_OUTPUT_ROWS = 256
"""The rows of output that a state keeps room for between two batches."""

_ROWS_PER_CALL = 2048
"""The rows that the kernel accepts between two reports of progress. A call takes seconds at most, even if the rows are
far out of order."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of m pairs of rule incarnation and grouping key.

    `rows` int64[m, M_WIDTH] has the numbers of each mark. Its M_SLOT is valid only in the grouping state that it comes
    from. `keys` has one Column of m rows for each grouping field.
    """

    rows: Ints
    keys: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """The results for n rows: `outcomes` int8[n] of ROW_*, `lateness_ms` int64[n] (0 unless late), and `output`
    int64[m, O_WIDTH] with a row of O_* for each alert and suppressed alert, or for each evaluation with `explain`.
    `conditions` has the rows of their conditions, in the same order: O_CONDITIONS of each row of `output`.
    `marks` has the marks that the alerts and suppressed alerts have changed; None without such alerts. `passes` and
    `limits` are those of `PredicateMasks` for all predicates and limits of the plan. `previous` has the previous
    payments that rules have read."""

    outcomes: NDArray[np.int8]
    lateness_ms: Ints
    output: Ints
    conditions: Ints
    marks: Marks | None
    passes: NDArray[np.uint8]
    limits: Sequence[Column]
    previous: PreviousColumns


class GroupingState:
    """The state of one (key group, grouping, epoch). Not thread-safe. The key group's lock guards shared arrays."""

    def __init__(
        self,
        schema: TransactionSchema,
        fields: tuple[str, ...],
        arrays: Arrays,
        longest_cooldown_ms: int = at.FOREVER_MS,
    ) -> None:
        schema = self._schema = schema.of_rows(fields)
        self._longest_cooldown_ms = longest_cooldown_ms
        self._decode_measures = partial(_decode_measures, schema=schema)
        self._time_column = at.E_FIELDS + schema.names.index(TIME_FIELD)
        id_column = at.E_FIELDS + schema.names.index(ID_FIELD)
        self._texts = [(i, field.name) for i, field in enumerate(schema.fields) if field.type is FieldType.STRING]
        self._text_columns: Ints = np.array([at.E_FIELDS + i for i, _ in self._texts], dtype=np.int64)
        self._key_fields = [schema.names.index(name) for name in fields]
        self._key_columns: Ints = np.array([at.E_FIELDS + i for i in self._key_fields], dtype=np.int64)
        self._row_width = at.E_FIELDS + len(schema.fields)
        self.identity = (ID_FIELD, ID_FIELD if schema.row_entity is None else ROLE)
        """The two fields that identify a row within a key. In a grouping by fields, both are the id."""
        role_column = at.E_FIELDS + schema.names.index(self.identity[1])
        self._view = View(arrays, self._row_width, self._key_columns, self._time_column, (id_column, role_column))
        self._plan: GroupingPlan | None = None
        self.header = self._view.header
        self._strings = StringTable(self._view)
        self._output = np.empty((_OUTPUT_ROWS, at.O_WIDTH), dtype=np.int64)
        self._limbs = np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)

    @classmethod
    def create(
        cls,
        schema: TransactionSchema,
        fields: tuple[str, ...],
        arrays: Arrays,
        longest_cooldown_ms: int = at.FOREVER_MS,
        measures: Measures = NO_MEASURES,
    ) -> GroupingState:
        """Create an empty state. With the `measures` of the plan that follows, this plan needs no rebuild."""
        state = cls(schema, fields, arrays, longest_cooldown_ms)
        generation = state.header[at.H_GENERATION]
        state.header[:] = 0
        state.header[at.H_GENERATION] = generation
        state.header[[at.H_WATERMARK, at.H_BOUND, at.H_FIRST, at.H_SETTLED]] = at.NONE
        state._strings.clear()
        state._view.clear(shared_measures(measures), 0, 0, 0)
        return state

    @property
    def retained_rows(self) -> int:
        """The number of retained rows, including expired rows before their clean-up, without sums."""
        return int(self.header[at.H_EVENTS])

    @property
    def keys(self) -> int:
        """The number of grouping keys, including idle ones before their clean-up."""
        return int(self.header[at.H_SLOTS])

    @property
    def retained_marks(self) -> int:
        """The number of marks, including spent marks before their clean-up."""
        return int(self.header[at.H_MARKS])

    @property
    def horizon(self) -> Horizon:
        """The event times before which rows and marks no longer count."""
        header = self.header
        return Horizon(int(header[at.H_BOUND]), int(header[at.H_WATERMARK]), self._longest_cooldown_ms)

    @property
    def retained_bytes(self) -> int:
        """The size in bytes of the arrays."""
        self._refresh()
        return self._view.nbytes

    @property
    def string_bytes(self) -> int:
        """The bytes of the strings, including those that no row uses any more before their clean-up."""
        return int(self.header[at.H_TEXT]) + int(self.header[at.H_STRINGS]) * _BYTES_PER_STRING

    @property
    def measures(self) -> Measures:
        """The measures kept beside the rows."""
        self._refresh()
        return self._view.measures

    @property
    def series(self) -> list[SeriesHead]:
        """The series of long windows that have begun and are not over."""
        self._refresh()
        return series_in(self._view)

    def set_series(self, series: Sequence[SeriesHead]) -> None:
        """Replace the numbers of all series. The state has measures of these series, or does not need them."""
        self._refresh()
        put_series(self._view, series)

    def settle(self, append_ms: int) -> None:
        """Let rows that were appended before this time become parts of sums."""
        self.header[at.H_SETTLED] = append_ms

    def sums(self) -> StepSums:
        """The sums that still count, of all rows that may become parts of sums."""
        self._refresh()
        return sums_in(self._view, self._keys_of)

    def plan(self, versions: Sequence[GroupingInForce]) -> GroupingPlan:
        """The plan of versions of the grouping. It reuses the state's measures if they suffice."""
        self._refresh()
        return PLANS.plan(versions, self._schema, self._view.measures)

    def prepare(self, plan: GroupingPlan) -> None:
        """Rebuild the arrays if the plan needs other measures."""
        self._refresh()
        self._prepare_for(plan)

    def accept(
        self,
        batch: TransactionBatch,
        versions: Ints,
        plan: GroupingPlan,
        max_out_of_orderness_ms: int,
        explain: bool,
        progress: TaskProgress = UNREPORTED,
        sample: RuleSample | None = None,
        events: Ints | None = None,
        masks: PredicateMasks | None = None,
        columns_of: ColumnsOf | None = None,
    ) -> AcceptResult:
        """Accept the n rows of the batch in their order, and evaluate them.

        `versions` int64[n] holds, for each row, the index of the grouping's version among the versions of the plan.
        With `explain`, the output has every evaluation, otherwise only alerts and suppressed alerts. `sample` receives
        the CPU time of the rules. `events` and `masks` are those of `event_rows` and `predicate_masks` for the rows,
        if the caller has them. `columns_of` returns the columns of the batch, and those of look-ups; without it, the
        rules name no list or map.
        """
        self.prepare(plan)
        if masks is None:
            masks = predicate_masks(plan, batch.columns, len(batch))
        columns_of, previous = columns_of or partial(_columns_of, batch), None
        if plan.previous:
            previous = PreviousPayments(plan, self._schema, masks, columns_of, sample)
        own = OwnLimits(plan, self._schema, self.header, columns_of, previous)
        return self._advance(
            batch, versions, masks, plan, max_out_of_orderness_ms, explain, progress, own, sample, events, previous
        )

    def _advance(
        self,
        batch: TransactionBatch,
        versions: Ints,
        masks: PredicateMasks,
        plan: GroupingPlan,
        max_out_of_orderness_ms: int,
        explain: bool,
        progress: TaskProgress,
        own: OwnLimits,
        sample: RuleSample | None = None,
        events: Ints | None = None,
        previous: PreviousPayments | None = None,
    ) -> AcceptResult:
        """`accept` under a plan with the view's measures."""
        # A row is evaluated only if it is not older than the watermark, so no mark that these rows change is spent by
        # this horizon. The caller can record all of them, whatever the state drops meanwhile.
        horizon = self.horizon
        n = len(batch)
        self._strings.drop_unused(self._text_columns)
        rows = self._rows_of(batch, events)
        outcomes, lateness_ms = np.zeros(n, dtype=np.int8), np.zeros(n, dtype=np.int64)
        lefts, ahead = np.empty(2 * len(plan.measures.windows), dtype=np.int64), np.empty(n, dtype=np.int64)
        starts = calendar_starts(plan.measures, batch.columns[TIME_FIELD])
        shared = np.full((plan.rules.shared, 2), -1, dtype=np.int64)
        self.header[at.H_OUT] = 0
        every, timings = (0, NOT_TIMED) if sample is None else (sample.every, sample.timings)
        displaced = DisplacedRows(self._view)
        start, done = 0, 0
        passes = masks.passes if previous is None else previous.passes

        def next_arrivals() -> Arrivals:
            """The arrivals of the call of the kernel from row `done` on."""
            end = min(n, done + _ROWS_PER_CALL)
            arrivals = Arrivals(rows[:end], passes[:end], versions[:end], starts[:end], plan.rules, done)
            if previous is None:
                limits = masks.between(done, end).limits
            else:
                displaced.merge()
                limits = previous.judge(self._view, arrivals, done, max_out_of_orderness_ms, self._column)
            arrivals = arrivals._replace(limits=row_limits(plan.rules, plan.limits, limits, end - done))
            own.begin(arrivals, limits)
            return arrivals

        arrivals = next_arrivals()
        while True:
            own.write_to(self._output)
            results = ResultArrays(
                outcomes, lateness_ms, self._output, lefts, shared, ahead, self._limbs, own.address, every, timings
            )
            start, need = advance(
                self._view.state,
                displaced.arrays,
                displaced.runs,
                self._view.measure_arrays,
                plan.rules,
                arrivals,
                results,
                max_out_of_orderness_ms,
                int(explain),
                start,
            )
            own.check()
            if need == at.NEED_RUNS:
                displaced.provide()
                continue
            if need != at.DONE:
                displaced.merge()
                if self._grow(need, horizon, n - start):
                    self._encode_texts(rows, batch)
                displaced = DisplacedRows(self._view)
                continue
            progress.evaluated(start - done)
            done = start
            if done == n:
                displaced.merge()
                output = self._output[: self.header[at.H_OUT]]
                if len(self._output) > _OUTPUT_ROWS:
                    self._output = np.empty((_OUTPUT_ROWS, at.O_WIDTH), dtype=np.int64)
                is_condition = output[:, at.O_RULE] >= len(plan.in_force)
                output, conditions = output[~is_condition], output[is_condition]
                marks = self._changed_marks(rows, output, plan)
                if previous is None:
                    return AcceptResult(outcomes, lateness_ms, output, conditions, marks, passes, masks.limits, {})
                limits, columns = previous.limits(), previous.columns()
                return AcceptResult(outcomes, lateness_ms, output, conditions, marks, passes, limits, columns)
            arrivals = next_arrivals()

    def _grow(self, need: int, horizon: Horizon, rows: int) -> bool:
        """Make room in the array that the kernel needs for the remaining `rows` of the batch: free the space of expired
        rows and of the marks that are spent by the horizon, or grow the array.

        Returns whether the state was compacted. Its strings then have other codes.
        """
        if need == at.NEED_OUTPUT:
            used = int(self.header[at.H_OUT])
            grown = np.empty((2 * len(self._output), at.O_WIDTH), dtype=np.int64)
            grown[:used] = self._output[:used]
            self._output = grown
        elif need == at.NEED_MARKS:
            marks = self._view.state.marks[: self.retained_marks]
            if 2 * int(np.count_nonzero(find_spent(marks, horizon))) > self.retained_marks:
                self._compact(horizon)
                return True
            self._view.grow(need)
        elif self._is_scattered(horizon):
            self._compact(horizon)
            return True
        elif need == at.NEED_EVENTS and 2 * int(np.count_nonzero(self._live_mask())) <= self.retained_rows:
            key_rows.trim(self._view.state, self._view.measure_arrays, np.empty(self.retained_rows, dtype=np.int64))
        elif need != at.NEED_POOL or not self._pack():
            self._view.grow(need, rows)
        return False

    def _pack(self) -> bool:
        """Move the ranges of the pool together, if this frees at least an eighth of it. Returns whether it does."""
        state = self._view.state
        step_sums.fold_all(state, self._view.measure_arrays)
        order = np.argsort(state.slots[: self.header[at.H_SLOTS], at.S_BASE])
        if 8 * int(key_rows.packed_end(state, order)) >= 7 * int(self.header[at.H_POOL]):
            return False
        key_rows.pack(state, self._view.measure_arrays, order)
        return True

    def _is_scattered(self, horizon: Horizon) -> bool:
        """Whether a compaction would remove most keys, or most of the pool is unused because key rows have moved."""
        slots = int(self.header[at.H_SLOTS])
        if slots >= _SCATTERED_ABOVE:
            marks = self._view.state.marks[: self.retained_marks]
            marked = np.zeros(slots, dtype=np.bool_)
            marked[marks[~find_spent(marks, horizon), at.M_SLOT]] = True
            if 2 * int(key_rows.count_idle_slots(self._view.state, marked)) > slots:
                return True
        rows = self.retained_rows
        if self._view.measures.series:
            rows = int(self._view.state.slots[:slots, at.S_TAIL].sum())
        return int(self.header[at.H_POOL]) > 8 * rows + _SCATTERED_ABOVE

    def rows(self) -> TransactionBatch:
        """The rows that still count, without those in sums, in arrival order. Their partitions and offsets are 0,
        because the state does not store these."""
        self._refresh()
        return self._batch_of(self._view.state.events[: self.retained_rows][self._live_mask()])

    def arrival_numbers(self) -> Ints:
        """The arrival number of each row of `rows()`."""
        self._refresh()
        return self._view.state.events[: self.retained_rows, at.E_SEQ][self._live_mask()]

    def marks(self) -> Marks:
        """The marks that are not spent."""
        self._refresh()
        return self._unspent(self.horizon)

    def _unspent(self, horizon: Horizon) -> Marks:
        rows = self._view.state.marks[: self.retained_marks]
        return self._with_keys(rows[~find_spent(rows, horizon)])

    def _changed_marks(self, rows: Ints, output: Ints, plan: GroupingPlan) -> Marks | None:
        """The marks of the alerts and suppressed alerts among rows of O_*, each once. `rows` are the accepted rows in
        the layout of `events`."""
        if not len(output):
            return None
        outcomes = output[:, at.O_FIRED]
        fired = output[(outcomes == at.FIRED_YES) | (outcomes == at.FIRED_SUPPRESSED)]
        if not len(fired):
            return None
        rules = plan.rules.rows[fired[:, at.O_RULE], at.R_RULE]
        found = np.zeros(int(self.header[at.H_MARKS]), dtype=np.bool_)
        hash_tables.find_marks(self._view.state, rules, self._slots_for(rows[fired[:, at.O_ROW]]), found)
        return self._with_keys(self._view.state.marks[np.flatnonzero(found)])

    def _with_keys(self, rows: Ints) -> Marks:
        return Marks(rows, self._keys_of(rows[:, at.M_SLOT]))

    def _keys_of(self, slots: Ints) -> tuple[Column, ...]:
        """The grouping keys of slots: one Column for each grouping field."""
        keys = self._view.state.slots[slots, self._view.measure_arrays.key_at :]
        return tuple(self._column(i, keys[:, k], None) for k, i in enumerate(self._key_fields))

    def load(
        self,
        batch: TransactionBatch,
        numbers: Ints,
        marks: Sequence[Marks],
        measures: Measures | None = None,
        sums: StepSums = NO_SUMS,
        series: Sequence[SeriesHead] | None = None,
    ) -> None:
        """Replace the state's content with rows in arrival order, their arrival numbers, marks, and sums. Of several
        marks of a rule and key, the last one counts. `measures` and `series` replace those of the state."""
        self._strings.clear()
        rows = self._rows_of(batch)
        rows[:, at.E_SEQ] = numbers
        measures = self._view.measures if measures is None else measures
        self._rebuild(rows, marks, measures, sums, self.series if series is None else series)

    def append(self, batch: TransactionBatch, numbers: Ints, marks: Sequence[Marks]) -> bool:
        """Add rows that another view of this state has accepted, and replace marks, without an evaluation.

        The rows are in arrival order with their arrival numbers, after all rows of this state. No row is below the
        retention bound. The caller sets the numbers of the header afterwards. Returns False if the state has another
        row with the same id. The state is then incomplete.
        """
        self._refresh()
        n = len(batch)
        if n:
            plan = storing_plan(self._view.measures)
            masks = PredicateMasks(filter_masks(plan.measures, batch.columns, n), ())
            own = OwnLimits(plan, self._schema, self.header, partial(_columns_of, batch), None)
            result = self._advance(
                batch, np.zeros(n, dtype=np.int64), masks, plan, at.FOREVER_MS, False, UNREPORTED, own
            )
            if np.isin(result.outcomes, (at.ROW_DUPLICATE, at.ROW_CONFLICTING_DUPLICATE)).any():
                return False
            self._view.state.events[self.retained_rows - n : self.retained_rows, at.E_SEQ] = numbers
        for each in marks:
            self._replace_marks(each)
        self._recount_revived(n, marks)
        return True

    def no_rows(self) -> TransactionBatch:
        """A batch without rows."""
        self._refresh()
        return self._batch_of(self._view.state.events[:0])

    def set_last_alerts(self, updates: Sequence[MarkUpdate]) -> Marks:
        """Set the last alerts of marks, and return the marks. Their resets stay. The state has the rows of the keys, or
        has had them."""
        self._refresh()
        rows = np.full((len(updates), at.M_WIDTH), at.NONE, dtype=np.int64)
        rows[:, [at.M_SLOT, at.M_REVIVED]] = 0
        rows[:, at.M_RULE] = [each.incarnation for each in updates]
        marks = Marks(
            rows, tuple(Column.of_values([each.key[k] for each in updates]) for k in range(len(self._key_fields)))
        )
        while self.header[at.H_SLOTS] + len(updates) > len(self._view.state.slots):
            self._view.grow(at.NEED_SLOTS)
        slots = self._slots_of_keys(marks)
        found = np.zeros(int(self.header[at.H_MARKS]), dtype=np.bool_)
        hash_tables.find_marks(self._view.state, rows[:, at.M_RULE].copy(), slots, found)
        known = {(row[at.M_RULE], row[at.M_SLOT]): row for row in self._view.state.marks[np.flatnonzero(found)]}
        for row, slot, update in zip(rows, slots, updates, strict=True):
            row[:] = known.get((update.incarnation, int(slot)), row)
            row[at.M_LAST_TIME] = at.NONE if update.last_ms is None else update.last_ms
            row[at.M_SUPPRESSED] = update.suppressed
        self._replace_marks(marks)
        return marks

    def marks_after_history(self) -> Marks:
        """The marks, after the added rows of a warm-up count as present at each reset."""
        resets.extend_resets(self._view.state)
        return self.marks()

    def _replace_marks(self, marks: Marks) -> None:
        view = self._view
        while self.retained_marks + len(marks.rows) > len(view.state.marks):
            view.grow(at.NEED_MARKS)
        while self.header[at.H_SLOTS] + len(marks.rows) > len(view.state.slots):
            view.grow(at.NEED_SLOTS)
        self._load_marks(marks)

    def _recount_revived(self, rows: int, marks: Sequence[Marks]) -> None:
        """Count the rows after resets again, for the keys of the newest rows and of these marks."""
        state = self._view.state
        changed = np.zeros(len(state.slots), dtype=np.bool_)
        changed[state.events[self.retained_rows - rows : self.retained_rows, at.E_SLOT]] = True
        for each in marks:
            changed[self._slots_of_keys(each)] = True
        resets.recount_revived_in(state, changed)

    def _compact(self, horizon: Horizon) -> None:
        """Remove the rows that no longer count, and the marks that are spent by the horizon."""
        self._rebuild_with(self._unspent(horizon), self._view.measures)

    def _refresh(self) -> None:
        self._view.refresh(self._decode_measures)

    def _live_mask(self) -> NDArray[np.bool_]:
        events = self._view.state.events[: self.retained_rows]
        times_ms = events[:, self._time_column]
        live: NDArray[np.bool_] = times_ms >= self.header[at.H_BOUND]
        if self._view.measures.series:
            oldest_ms = step_sums.oldest(self._view.state)
            live |= (events[:, at.E_APPEND] >= self.header[at.H_SETTLED]) & (times_ms >= oldest_ms)
        return live

    def _rows_of(self, batch: TransactionBatch, events: Ints | None = None) -> Ints:
        """Convert the batch to the layout of `events`, with the codes of this state for strings. `events` has the rows
        with the codes of the batch, and stays as it is."""
        rows = event_rows(batch, self._schema) if events is None else events
        if events is not None and self._texts_of(batch):
            rows = rows.copy()
        self._encode_texts(rows, batch)
        return rows

    def _encode_texts(self, rows: Ints, batch: TransactionBatch) -> None:
        """Write the codes of this state for the strings of the batch into its rows."""
        for i, column in self._texts_of(batch):
            rows[:, at.E_FIELDS + i] = self._codes(column)

    def _texts_of(self, batch: TransactionBatch) -> list[tuple[int, Column]]:
        return [(i, column) for i, name in self._texts if (column := batch.columns.get(name)) and column.dictionary]

    def _codes(self, column: Column) -> Ints:
        """The column's values as the state stores them: strings as codes of its string table."""
        return self._strings.intern(column.dictionary)[column.values] if column.dictionary else column.values

    def _batch_of(self, events: Ints) -> TransactionBatch:
        nulls = events[:, at.E_NULLS]
        columns = {
            field.name: self._column(i, events[:, at.E_FIELDS + i], (nulls >> i) & 1 == 0 if field.nullable else None)
            for i, field in enumerate(self._schema.fields)
        }
        zeros = np.zeros(len(events), dtype=np.int64)
        return TransactionBatch(events[:, at.E_APPEND].copy(), zeros.astype(np.int32), zeros, columns)

    def _column(self, i: int, values: Ints, valid: NDArray[np.bool_] | None) -> Column:
        is_text = self._schema.fields[i].type is FieldType.STRING
        return self._strings.column(values, valid) if is_text else Column(np.ascontiguousarray(values), valid, None)

    def _prepare_for(self, plan: GroupingPlan) -> None:
        """Rebuild the measures, or count the rows after resets again, if the plan requires this."""
        if self._view.measures != plan.measures:
            self._rebuild_with(self.marks(), plan.measures)
        elif self._plan is not plan and len(plan.rules.resets):
            resets.recount_revived(self._view.state)
        self._plan = plan

    def _rebuild_with(self, marks: Marks, measures: Measures) -> None:
        sums, batch, numbers = self.sums(), self.rows(), self.arrival_numbers()
        self._strings.clear()
        rows = self._rows_of(batch)
        rows[:, at.E_SEQ] = numbers
        self._rebuild(rows, (marks,), measures, sums, self.series)

    def _rebuild(
        self,
        rows: Ints,
        marks: Sequence[Marks],
        measures: Measures,
        sums: StepSums,
        series: Sequence[SeriesHead],
    ) -> None:
        """Rebuild all arrays from the rows (in the layout of `events`, in arrival order), the marks, the sums, and the
        numbers of the series."""
        n, n_marks, header, view = len(rows), sum(len(each.rows) for each in marks), self.header, self._view
        view.clear(shared_measures(measures), n + (n >> 3), n + n_marks, 2 * n_marks)
        self.set_series(series)
        for each in marks:
            self._load_marks(each)
        rows[:, at.E_SLOT] = self._slots_for(rows)
        view.state.events[:n] = rows
        header[at.H_EVENTS] = n
        view.state.passes[:n] = filter_masks(measures, self._batch_of(rows).columns, n)
        sum_slots = self._slots_of_sums(sums)
        slots = int(header[at.H_SLOTS])
        counts = np.bincount(rows[:, at.E_SLOT], minlength=slots) + np.bincount(sum_slots, minlength=slots)
        needed = int(key_rows.assign_ranges(view.state, counts))
        view.open_pool(needed + (needed >> 3))
        self._append_sums(sums, sum_slots)
        key_rows.insert_all(view.state, view.measure_arrays, np.argsort(rows[:, self._time_column], kind="stable"))
        resets.recount_revived(view.state)

    def _load_marks(self, marks: Marks) -> None:
        hash_tables.load_marks(self._view.state, marks.rows, self._slots_of_keys(marks))

    def _slots_of_keys(self, marks: Marks) -> Ints:
        """The slot of each mark's key. A new key gets a new slot."""
        return self._slots_for(self._rows_of_keys(marks.keys, len(marks.rows)))

    def _rows_of_keys(self, keys: Sequence[Column], n: int) -> Ints:
        """n rows in the layout of `events` that have only a key."""
        key_only = np.zeros((n, self._row_width), dtype=np.int64)
        for position, column in zip(self._key_columns, keys, strict=True):
            key_only[:, position] = self._codes(column)
        return key_only

    def _slots_of_sums(self, sums: StepSums) -> Ints:
        """The slot of each sum's key. A new key gets a new slot."""
        if not len(sums):
            return np.empty(0, dtype=np.int64)
        keys = np.stack([self._codes(column) for column in sums.keys] or [np.zeros(len(sums), dtype=np.int64)], axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        while self.header[at.H_SLOTS] + len(first) > len(self._view.state.slots):
            self._view.grow(at.NEED_SLOTS)
        rows = self._rows_of_keys([column.take(first) for column in sums.keys], len(first))
        return self._slots_for(rows)[inverse.reshape(-1)]

    def _append_sums(self, sums: StepSums, slots: Ints) -> None:
        """Put the sums into the empty ranges of these slots, in order of time."""
        if len(sums):
            view, times = self._view, np.ascontiguousarray(sums.numbers[:, U_TIME])
            totals, leaves = sums.columns_of(view.measures)
            order = np.argsort(times, kind="stable")
            step_sums.append_sums(view.state, order, slots, times, totals, leaves)
            if len(view.measures.trees):
                key_rows.refresh_blocks(view.state)

    def _slots_for(self, rows: Ints) -> Ints:
        """The slot of each row's grouping key. A new key gets a new slot."""
        slots = np.empty(len(rows), dtype=np.int64)
        hash_tables.assign_slots(self._view.state, self._view.measure_arrays, rows, slots)
        return slots


def _columns_of(batch: TransactionBatch, lookups: Sequence[Lookup], start: int, end: int, more: Columns) -> Columns:
    """The columns of some rows without look-ups, as `ColumnsOf`."""
    return {**batch.columns_between(start, end), **more}


def _decode_measures(text: bytes, schema: TransactionSchema) -> Measures:
    return shared_measures(Measures.decode(text, schema))

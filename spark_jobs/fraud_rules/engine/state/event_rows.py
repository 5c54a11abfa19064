"""Converts transactions to the arrays that the kernel reads: rows in the layout of events, and masks of predicates."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.rule_sample import RuleSample
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints
from fraud_rules.engine.window.plan import GroupingPlan, Measures, RowLimit
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_NULL: Final = Column(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_), None)


class PredicateMasks(NamedTuple):
    """The results of all filters, then all conditions: `passes` uint8[n, 1 + filters + conditions], whose first column
    is 1 for all rows, and `counts`, the rows that pass, by column. `limits` has the values of each of the plan's limits
    that are expressions, unscaled, for n rows."""

    passes: NDArray[np.uint8]
    counts: Sequence[int]
    limits: Sequence[Column] = ()

    def between(self, start: int, end: int) -> PredicateMasks:
        """The results for the rows [start, end), with the counts of all rows."""
        rows: Any = slice(start, end)
        return PredicateMasks(self.passes[rows], self.counts, [each.take(rows) for each in self.limits])


def event_rows(batch: TransactionBatch, schema: TransactionSchema) -> Ints:
    """Convert the batch to the layout of `events`. Strings are the codes of the batch."""
    rows = np.zeros((len(batch), at.E_FIELDS + len(schema.fields)), dtype=np.int64)
    rows[:, at.E_APPEND] = batch.append_ms
    for i, name in enumerate(schema.names):
        column = batch.columns.get(name)
        if column is None:
            rows[:, at.E_NULLS] |= null_bit(i)
            continue
        rows[:, at.E_FIELDS + i] = column.values
        if column.valid is not None:
            rows[~column.valid, at.E_NULLS] |= null_bit(i)
    return rows


def calendar_starts(measures: Measures, times: Column) -> Ints:
    """The start of each calendar window for n times, int64[n, calendars] in epoch ms; NONE for a time without one."""
    starts = np.empty((len(times.values), len(measures.calendars)), dtype=np.int64)
    for number, window in enumerate(measures.calendars):
        column = window.starts(times)
        starts[:, number] = column.values if column.valid is None else np.where(column.valid, column.values, at.NONE)
    return starts


def null_bit(i: int) -> int:
    """The null bit of field `i`, as an int64."""
    return 1 << i if i < 63 else at.NONE


def filter_masks(measures: Measures, columns: Mapping[str, Column], n: int) -> NDArray[np.uint8]:
    """Evaluate all filters for all rows: uint8[n, filters + 1]. The first column is 1 for all rows."""
    return _masks(measures.filters, columns, n).passes


def predicate_masks(
    plan: GroupingPlan, columns: Mapping[str, Column], n: int, sample: RuleSample | None = None
) -> PredicateMasks:
    """Evaluate all filters, then all conditions, then all limits, for n rows. The sample receives the CPU time of
    each.

    A condition that reads the previous payment passes no row, and such a limit is null: see `previous_payments`. So is
    a limit that reads the own aggregate: see `own_limits`.
    """
    conditions = [each.expression if each.previous is None else None for each in plan.conditions]
    masks = _masks((*plan.measures.filters, *conditions), columns, n, sample)
    return masks._replace(limits=[_limit_or_null(each, columns, n, sample) for each in plan.limits])


def _limit_or_null(limit: RowLimit, columns: Mapping[str, Column], n: int, sample: RuleSample | None) -> Column:
    if limit.reads_own:
        if sample is not None:
            sample.limits_ns.append(0)
        return Column(np.zeros(n, dtype=object), np.zeros(n, dtype=np.bool_), None)
    began = 0 if sample is None else time.thread_time_ns()
    column = _NULL if limit.previous is not None else limit_values(limit, columns, n)
    if sample is not None:
        sample.limits_ns.append(time.thread_time_ns() - began)
    return _of_rows(column, n)


def limit_values(limit: RowLimit, columns: Mapping[str, Column], n: int) -> Column:
    """The values of a limit for n rows."""
    return _of_rows(limit.expression.evaluate(columns, n), n)


def _of_rows(column: Column, n: int) -> Column:
    """A column of n rows from one whose only row may stand for all."""
    valid = None if column.valid is None else np.broadcast_to(column.valid, n)
    return Column(np.broadcast_to(column.values, n), valid, None)


def _masks(
    predicates: Sequence[Predicate | None], columns: Mapping[str, Column], n: int, sample: RuleSample | None = None
) -> PredicateMasks:
    masks = np.ones((n, len(predicates) + 1), dtype=np.uint8)
    counts = [n]
    for number, predicate in enumerate(predicates, start=1):
        began = 0 if sample is None else time.thread_time_ns()
        mask = np.zeros(n, dtype=np.bool_) if predicate is None else predicate.mask(columns, n)
        masks[:, number] = mask
        counts.append(int(np.count_nonzero(mask)))
        if sample is not None:
            sample.predicates_ns.append(time.thread_time_ns() - began)
    return PredicateMasks(masks, counts)

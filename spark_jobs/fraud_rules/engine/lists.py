"""Looks up a batch's values in lists: each row in the list as of the row's append time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.distinct import distinct
from fraud_rules.model.expressions.predicate import ListMembership, Predicate
from fraud_rules.model.expressions.unscaled import as_int64
from fraud_rules.model.list_history import Lists
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.model.value_list import ValueList

Ints = NDArray[np.int64]


def list_columns(
    conditions: Iterable[Predicate], timeline: RuleTimeline, batch: TransactionBatch, counts: Ints
) -> dict[str, Column]:
    """The columns that the list conditions read, by `ListMembership.column`: 1 for a row whose value is listed.

    `counts` int64[n] holds the number of log entries that apply to each row. A row is null if the list is missing, or
    has another type than the field. Then no rule in force for the row reads the list: a rule of a later or an earlier
    row of the batch does.
    """
    needed = sorted({each for condition in conditions for each in condition.memberships}, key=str)
    if not needed:
        return {}
    points, inverse = distinct(counts)
    lists = [timeline.lists_at(point) for point in points.tolist()]
    return {
        each.column: _column(_values(each, batch), [_suitable(each, known) for known in lists], inverse)
        for each in needed
    }


def _values(membership: ListMembership, batch: TransactionBatch) -> Column:
    """The values that the condition looks up, one for each row."""
    n = len(batch)
    column = membership.item.evaluate(batch.columns, n)
    valid = None if column.valid is None else np.broadcast_to(column.valid, n)
    return Column(np.broadcast_to(column.values, n), valid, column.dictionary)


def _suitable(membership: ListMembership, lists: Lists) -> ValueList | None:
    """The list that the condition names. None if it is missing, or has another type than the item."""
    found = lists.get(membership.list_name)
    return found if found is not None and found.type is membership.list_type else None


def list_versions(names: Iterable[str], timeline: RuleTimeline, count: int) -> dict[str, int]:
    """The versions of lists after the first `count` log entries, by name."""
    lists = timeline.lists_at(count)
    return {name: lists[name].version for name in sorted(names) if name in lists}


def _column(column: Column, versions: Sequence[ValueList | None], inverse: Ints) -> Column:
    """Look up each row of the column in its version of the list. `inverse` int64[n] holds the version of each row."""
    distinct: list[ValueList | None] = []
    numbers = np.empty(len(versions), dtype=np.int64)
    for position, version in enumerate(versions):
        if not distinct or version is not distinct[-1]:
            distinct.append(version)
        numbers[position] = len(distinct) - 1
    if len(distinct) == 1:
        return _looked_up(column, distinct[0])
    listed, valid = np.zeros(len(inverse), dtype=np.int64), np.zeros(len(inverse), dtype=np.bool_)
    number_of_row = numbers[inverse]
    order = np.argsort(number_of_row, kind="stable")
    ends = np.searchsorted(number_of_row[order], np.arange(1, len(distinct) + 1))
    for version, rows in zip(distinct, np.split(order, ends[:-1]), strict=True):
        found = _looked_up(column.take(rows), version)
        listed[rows] = found.values
        valid[rows] = True if found.valid is None else found.valid
    return Column(listed, valid, None)


def _looked_up(column: Column, version: ValueList | None) -> Column:
    n = len(column.values)
    if version is None:
        return Column(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), None)
    if column.dictionary is None:
        values, fits = as_int64(column.values)
        listed = version.contains_longs(values)
        return Column((listed if fits is None else listed & fits).astype(np.int64), column.valid, None)
    table = np.array([version.contains(text) for text in column.dictionary] or [False], dtype=np.int64)
    return Column(table[column.values], column.valid, None)

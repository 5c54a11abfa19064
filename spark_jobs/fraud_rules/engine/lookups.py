"""Looks up a batch's values in lists and maps: each row in the list or map as of the row's append time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.distinct import distinct
from fraud_rules.model.collection_history import Collection, Collections
from fraud_rules.model.expressions.expression import Columns
from fraud_rules.model.expressions.lookups import Lookup
from fraud_rules.model.expressions.unscaled import as_int64
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import Column
from fraud_rules.model.value_list import CollectionKind, ValueList
from fraud_rules.model.value_map import ValueMap

Ints = NDArray[np.int64]


class CollectionsByCount(Protocol):
    """What look-ups read of a rule log."""

    def collections_at(self, count: int) -> Collections:
        """The lists and maps after the first `count` entries."""


def lookup_columns(
    needed: Sequence[Lookup], timeline: CollectionsByCount, columns: Columns, counts: Ints
) -> dict[str, Column]:
    """The columns that expressions with these look-ups (`lookups_of`) read, by `Lookup.column`: 1 for a row whose value
    is listed, or the value in a map.

    `columns` holds all other columns of the n rows that the expressions read. `counts` int64[n] holds the number of log
    entries that apply to each row. A row is null if the list or map is
    missing, or has another type. Then no rule in force for the row reads it: a rule of a later or an earlier row of the
    batch does.
    """
    if not needed:
        return {}
    points, inverse = distinct(counts)
    known = [timeline.collections_at(point) for point in points.tolist()]
    found: dict[str, Column] = {}
    for each in needed:
        values = _values(each, {**columns, **found}, len(counts))
        found[each.column] = _column(values, [_suitable(each, at_point) for at_point in known], inverse)
    return found


def _values(lookup: Lookup, columns: Columns, n: int) -> Column:
    """The values that are looked up, one for each row."""
    column = lookup.item.evaluate(columns, n)
    valid = None if column.valid is None else np.broadcast_to(column.valid, n)
    return Column(np.broadcast_to(column.values, n), valid, column.dictionary)


def _suitable(lookup: Lookup, known: Collections) -> Collection | None:
    """The list or map of the look-up. None if it is missing, or has another type."""
    found = known.of(lookup.collection)
    return found if found is not None and found.type == lookup.type else None


def collection_versions(rule: Rule, timeline: RuleTimeline, count: int) -> dict[CollectionKind, dict[str, int]]:
    """The versions of the lists and maps that a rule names after the first `count` log entries, by name."""
    names = sorted(rule.collections)
    if not names:
        return {}
    known = timeline.collections_at(count)
    found: dict[CollectionKind, dict[str, int]] = {}
    for name in names:
        each = known.of(name)
        if each is not None:
            found.setdefault(each.kind, {})[each.name] = each.version
    return found


def _column(column: Column, versions: Sequence[Collection | None], inverse: Ints) -> Column:
    """Look up each row of the column in its version of the list or map. `inverse` int64[n] holds the version of each
    row."""
    distinct: list[Collection | None] = []
    numbers = np.empty(len(versions), dtype=np.int64)
    for position, version in enumerate(versions):
        if not distinct or version is not distinct[-1]:
            distinct.append(version)
        numbers[position] = len(distinct) - 1
    if len(distinct) == 1:
        return _looked_up(column, distinct[0])
    values, valid = np.zeros(len(inverse), dtype=np.int64), np.zeros(len(inverse), dtype=np.bool_)
    texts: list[str] = []
    has_texts = False
    number_of_row = numbers[inverse]
    order = np.argsort(number_of_row, kind="stable")
    ends = np.searchsorted(number_of_row[order], np.arange(1, len(distinct) + 1))
    for version, rows in zip(distinct, np.split(order, ends[:-1]), strict=True):
        found = _looked_up(column.take(rows), version)
        values[rows] = found.values + len(texts)
        valid[rows] = True if found.valid is None else found.valid
        if found.dictionary is not None:
            has_texts = True
            texts += found.dictionary
    if not has_texts:
        return Column(values, valid, None)
    return Column(np.where(valid, values, 0), valid, None).with_texts(tuple(texts))


def _looked_up(column: Column, version: Collection | None) -> Column:
    n = len(column.values)
    if version is None:
        return Column(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), None)
    return _listed(column, version) if isinstance(version, ValueList) else _mapped(column, version)


def _listed(column: Column, version: ValueList) -> Column:
    if column.dictionary is None:
        values, fits = as_int64(column.values)
        listed = version.contains_longs(values)
        return Column((listed if fits is None else listed & fits).astype(np.int64), column.valid, None)
    table = np.array([version.contains(text) for text in column.dictionary] or [False], dtype=np.int64)
    return Column(table[column.values], column.valid, None)


def _mapped(column: Column, version: ValueMap) -> Column:
    if column.dictionary is None:
        keys, fits = as_int64(column.values)
        values, found, texts = version.find(keys)
        found = found if fits is None else found & fits
    else:
        of_texts, is_there, texts = version.find(column.dictionary or ("",))
        values, found = of_texts[column.values], is_there[column.values]
    found = found if column.valid is None else found & column.valid
    return Column(values if texts is None else np.where(found, values, 0), found, texts)

"""Evaluates all payments of one entity with the engine, and keeps the last evaluation of each rule and key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import limit_text
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import in_arrival_order, rows_of_groupings
from fraud_rules.engine.state.grouping_state import AcceptResult
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.task_rows import GroupingRows, RowRange
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import aggregate_of
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.ruleset import Grouping, RuleInForce, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Objects = NDArray[np.object_]

_SLICE: Final = 512
"""The payments that are evaluated together. The evaluations of all payments at once fit into no cache: those of 10,000
payments and 600 rules have 800 MB."""


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """The last evaluation of a rule and key: a row of O_*, and the grouping of the key. O_ROW is the number of the
    payment in `batch`. `limit` is the limit with which the aggregate was compared; None for null."""

    in_force: RuleInForce
    fields: Grouping
    batch: TransactionBatch
    output: list[int]
    limit: Decimal | None

    def payment(self, schema: TransactionSchema) -> dict[str, object]:
        """The payment, by field name, with the entity of the grouping."""
        return self.batch.row(self.output[at.O_ROW], schema.of_rows(self.fields))


@dataclass(frozen=True, slots=True)
class LastEvaluations:
    """The last evaluations of one version of a rule for all keys: `output` int64[k, O_WIDTH], and `limits`, the value
    of a limit that is an expression (Decimal or None) in each of them."""

    in_force: RuleInForce
    fields: Grouping
    batch: TransactionBatch
    output: Ints
    limits: Objects

    def at(self, place: int) -> LastEvaluation:
        """The evaluation in row `place`."""
        number = self.in_force.rule.limit_number
        limit = self.limits[place] if number is None else number
        return LastEvaluation(self.in_force, self.fields, self.batch, self.output[place].tolist(), limit)


def last_evaluations(
    batch: TransactionBatch,
    field: str,
    timeline: RuleTimeline,
    schema: TransactionSchema,
    settings: DetectorSettings,
    known_from_ms: int,
) -> list[LastEvaluations]:
    """Evaluate the payments of one value of `field`, a field or an entity. The result has the rules in force whose key
    has the field, and for each key the last evaluation with a value.

    `batch` has all payments of the entity that were appended at `known_from_ms` or later. The evaluation is that of a
    detector that starts at this time.
    """
    numbered = _numbered(batch)
    kept = _KeptEvaluations(numbered, timeline)
    one = replace(settings, key_groups=1, evaluations=True)
    engine = KeyGroupEngine(
        0, schema, one, MemoryStateLog(), HeapViews(), observer=kept.observe, known_from_ms=known_from_ms
    )
    for start in range(0, len(numbered), _SLICE):
        rows = numbered.take(np.arange(start, min(start + _SLICE, len(numbered))))
        for fields, of_grouping in rows_of_groupings(rows, timeline, field):
            if len(of_grouping):
                engine.process_rows([RowRange(GroupingRows(fields, of_grouping), 0, len(of_grouping))], timeline, 0, 0)
    return list(kept.last())


def _numbered(batch: TransactionBatch) -> TransactionBatch:
    """The payments in arrival order, with their numbers in this order as offsets of one partition."""
    rows = in_arrival_order(batch)
    numbers = np.arange(len(rows), dtype=np.int64)
    return replace(rows, partition=np.zeros(len(rows), dtype=np.int32), offset=numbers)


class _KeptEvaluations:
    """The last evaluation of each rule and key among those that an engine has reported."""

    def __init__(self, batch: TransactionBatch, timeline: RuleTimeline) -> None:
        self._batch = batch
        self._rules = timeline.latest.rules
        self._keys: dict[Grouping, Ints] = {}
        self._in_force: dict[int, tuple[RuleInForce, Grouping]] = {}
        self._outputs: dict[Grouping, list[tuple[Ints, Ints, Objects]]] = {}

    def observe(self, rows: TransactionBatch, fields: Grouping, plan: GroupingPlan, result: AcceptResult) -> None:
        """Keep the last evaluations among those of a slice."""
        versions, evaluated, always = self._columns(fields, plan.in_force)
        rules = result.output[:, at.O_RULE]
        output = result.output[evaluated[rules] & (always[rules] | (result.output[:, at.O_VALUES] > 0))]
        if len(output):
            places = output[:, at.O_ROW].copy()
            output[:, at.O_ROW] = rows.offset[output[:, at.O_ROW]]
            rules = output[:, at.O_RULE]
            last = _last(rules, self._keys_of(fields)[output[:, at.O_ROW]])
            limits = _limits(plan, result, output[last], places[last])
            self._outputs.setdefault(fields, []).append((versions[rules[last]], output[last], limits))

    def last(self) -> Iterator[LastEvaluations]:
        """The evaluations kept, by version."""
        for fields, found in self._outputs.items():
            versions, output, limits = (np.concatenate(parts) for parts in zip(*found, strict=True))
            used, places = np.unique(versions, return_inverse=True)
            rule_ids = np.array([self._in_force[version][0].rule.rule_id for version in used.tolist()])
            _, rules = np.unique(rule_ids[places], return_inverse=True)
            last = _last(rules, self._keys_of(fields)[output[:, at.O_ROW]])
            versions, output, limits = versions[last], output[last], limits[last]
            order = np.argsort(versions, kind="stable")
            used, starts = np.unique(versions[order], return_index=True)
            for version, places in zip(used.tolist(), np.split(order, starts[1:]), strict=True):
                in_force = self._in_force[version][0]
                yield LastEvaluations(in_force, fields, self._batch, output[places], limits[places])

    def _keys_of(self, fields: Grouping) -> Ints:
        """The number of each payment's key."""
        if fields not in self._keys:
            columns = [self._batch.columns[name].values for name in fields]
            _, keys = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
            self._keys[fields] = keys.reshape(-1)
        return self._keys[fields]

    def _columns(self, fields: Grouping, in_force: Sequence[RuleInForce]) -> tuple[Ints, Flags, Flags]:
        """For each rule of a plan: its version, whether the rule is still evaluated, and whether its aggregate has a
        value in an empty window."""
        for each in in_force:
            self._in_force[each.version] = each, fields
        return (
            np.array([each.version for each in in_force], dtype=np.int64),
            np.array([self._is_evaluated(each.rule.rule_id) for each in in_force], dtype=np.bool_),
            np.array([aggregate_of(each.rule).has_value_of_empty_window for each in in_force], dtype=np.bool_),
        )

    def _is_evaluated(self, rule_id: int) -> bool:
        current = self._rules.get(rule_id)
        return current is not None and current.rule.evaluated


def _limits(plan: GroupingPlan, result: AcceptResult, output: Ints, places: Ints) -> Objects:
    """The limit of each output row whose rule has an expression as its limit. `places` has its row in the batch."""
    found = np.full(len(output), None, dtype=object)
    numbers = plan.rules.rows[output[:, at.O_RULE], at.R_LIMIT]
    for i in np.flatnonzero(numbers >= 0).tolist():
        text = limit_text(plan, result.limits, int(output[i, at.O_RULE]), int(places[i]))
        found[i] = None if text is None else Decimal(text)
    return found


def _last(rules: Ints, keys: Ints) -> Ints:
    """The positions of the last row of each rule and key, ascending."""
    codes = rules * (int(keys.max()) + 1) + keys
    last = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    last[codes] = np.arange(len(codes), dtype=np.int64)
    return np.sort(last[last >= 0])

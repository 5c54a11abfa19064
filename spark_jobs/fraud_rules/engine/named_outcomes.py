"""The outcomes of rules that other rules name: columns on their way to the driver, which reads few of them.

A key group does not know for which payments the rules of other groupings need an outcome. So it returns the outcomes of
all evaluations of named rules, up to one for each payment and named rule. As columns they cost a few ns each. An object
of Python for each would cost more than all evaluations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.distinct import distinct
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import KIND_STDDEV, aggregate_of
from fraud_rules.model.output import NamedOutcomes
from fraud_rules.model.rule import AggregateCondition, Rule
from fraud_rules.model.ruleset import RuleInForce
from fraud_rules.model.schema import ROLE, TransactionSchema
from fraud_rules.model.tables.narrow_column import NarrowColumn
from fraud_rules.model.transaction import TransactionBatch

Ints = NDArray[np.int64]
Place = tuple[int, int, int]
"""The append time, partition and offset of a delivery of a payment."""

_OF_ALL: Final = (at.O_COUNT, at.O_VALUES, at.O_HIGH, at.O_LOW, at.O_COMPLETE, at.O_FIRED)
_OF_DEVIATIONS: Final = tuple(range(at.O_SQUARE, at.O_SQUARE + 4))
_OF_BASELINES: Final = (at.O_BASE_COUNT, at.O_BASE_VALUES)
_KEPT: Final = (*_OF_ALL, *_OF_DEVIATIONS, *_OF_BASELINES)
_OFFSET: Final = 2


def has_value(of: Rule | AggregateCondition, row: Sequence[int]) -> bool:
    """Whether the aggregate in an output row of the kernel (see O_* in `layout`) has a value."""
    return row[at.O_VALUES] > 0 or aggregate_of(of).has_value_of_empty_window


class NamedOutcome(NamedTuple):
    """The outcome of the rule `rule_id` for one payment. `role` is that of `AlertRecord`, `row` the output row of the
    kernel, and `scale` that of the aggregated field."""

    place: Place
    rule_id: int
    role: int
    scale: int
    row: Sequence[int]

    @property
    def holds(self) -> bool:
        """Whether the rule holds."""
        return self.row[at.O_FIRED] != at.FIRED_NO

    @property
    def complete(self) -> bool:
        """Whether its windows are complete."""
        return self.row[at.O_COMPLETE] != 0

    @property
    def row_count(self) -> int:
        """The number of rows in its window."""
        return self.row[at.O_COUNT]

    def value(self, rule: Rule) -> str | None:
        """The aggregate of the rule as a decimal; None without a value, or without one of its baseline."""
        past = rule.baseline
        has_past = past is None or (self.row[at.O_BASE_COUNT] >= past.min_count and self.row[at.O_BASE_VALUES] > 0)
        return aggregate_of(rule).render(self.row, self.scale) if has_past and has_value(rule, self.row) else None


def named_outcomes(
    batch: TransactionBatch,
    schema: TransactionSchema,
    fields: Sequence[str],
    rules: Sequence[RuleInForce],
    output: Ints,
) -> NamedOutcomes:
    """The outcomes in output rows of the kernel, int64[n, O_WIDTH]. `rules` are those of the plan, and `batch` has the
    rows of the grouping."""
    row, rule = output[:, at.O_ROW], output[:, at.O_RULE]
    used, positions = distinct(rule)
    facts = np.array([_facts_of(rules[each].rule, schema) for each in used.tolist()], dtype=np.int64)
    rule_ids, scales, deviates, compares = facts[positions].T
    kept = output[:, _KEPT].T
    kept[len(_OF_ALL) : -len(_OF_BASELINES)] *= deviates  # the kernel leaves these columns as they were otherwise
    kept[-len(_OF_BASELINES) :] *= compares
    places = (each[row] for each in (batch.append_ms, batch.partition, batch.offset))
    columns = np.array((*places, rule_ids, _roles(batch, schema, fields)[row], scales, *kept), dtype=np.int64)
    return NamedOutcomes(len(output), NarrowColumn.of_each(columns))


def outcomes_at(blocks: Iterable[NamedOutcomes], places: Collection[Place]) -> Iterator[NamedOutcome]:
    """The outcomes for the payments at these places."""
    offsets = np.unique(np.array([offset for _, _, offset in places], dtype=np.int64))
    for block in blocks:
        chosen = np.flatnonzero(np.isin(block.columns[_OFFSET].values(block.rows), offsets))
        table = np.stack([each.values(block.rows, chosen) for each in block.columns], axis=1)
        for append_ms, partition, offset, rule_id, role, scale, *kept in table.tolist():
            if (append_ms, partition, offset) in places:
                row = [0] * at.O_WIDTH
                for column, value in zip(_KEPT, kept, strict=True):
                    row[column] = value
                yield NamedOutcome((append_ms, partition, offset), rule_id, role, scale, row)


def _facts_of(rule: Rule, schema: TransactionSchema) -> tuple[int, int, int, int]:
    scale = schema.scale_of(rule.aggregate_field)
    return rule.rule_id, scale, int(aggregate_of(rule).kind == KIND_STDDEV), int(rule.baseline is not None)


def _roles(batch: TransactionBatch, schema: TransactionSchema, fields: Sequence[str]) -> Ints:
    """The number of each row's role among those of the entity; 0 in a grouping by fields."""
    entity = schema.entity_of(tuple(fields))
    if entity is None:
        return np.zeros(len(batch), dtype=np.int64)
    column = batch.columns[ROLE]
    numbers = np.array([entity.role_names.index(role) for role in column.dictionary or ()], dtype=np.int64)
    return numbers[column.values]

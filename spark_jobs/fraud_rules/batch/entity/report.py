"""The report about one entity."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np

from fraud_rules.batch.entity.aggregates import EntityAggregate, OtherRule, entity_aggregates, rules_of_other_keys
from fraud_rules.batch.entity.restrictions import KeyRestriction
from fraud_rules.batch.entity.rows import EntityQuery, EntityRows, has_value
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch, cells_of

_SHOWN_PAYMENTS: Final = 200
_SHOWN_COUNTERPARTIES: Final = 20
_SHOWN_AGGREGATES: Final = 200
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_HOURLY_MS: Final = 3 * _DAY_MS


class EntityPeriod(msgspec.Struct, frozen=True, rename="camel"):
    """The payments of one hour or one day of event time (UTC) that begins at `at`. `amount` is exact, as text."""

    at: int
    count: int
    amount: str | None


class Counterparty(msgspec.Struct, frozen=True, rename="camel"):
    """A value of another key field in the payments."""

    field: str
    value: int | str
    count: int
    amount: str | None
    last: int


class EntityReport(msgspec.Struct, frozen=True, rename="camel"):
    """The payments and aggregates of an entity. Times are epoch ms.

    Payments that were appended before `reached` are missing; `notes` say why. `count` counts all payments, `payments`
    has the newest.
    """

    field: str
    value: int | str
    since: int
    reached: int
    notes: list[str]
    count: int
    amount_field: str | None
    period_ms: int
    periods: list[EntityPeriod]
    payments: list[dict[str, Any]]
    counterparties: list[Counterparty]
    aggregates: list[EntityAggregate]
    other_rules: list[OtherRule]
    restrictions: list[KeyRestriction]


def entity_report(
    query: EntityQuery,
    rows: EntityRows,
    timeline: RuleTimeline,
    schema: TransactionSchema,
    settings: DetectorSettings,
    now_ms: int,
    restrictions: Sequence[KeyRestriction] = (),
) -> EntityReport:
    """Evaluate the payments and sum them up."""
    batch, entity = rows.batch, schema.entity_of((query.field,))
    amount = next((each for each in schema.fields if each.type is FieldType.DECIMAL), None)
    period_ms = _HOUR_MS if now_ms - query.since_ms <= _HOURLY_MS else _DAY_MS
    evaluated = role_rows(batch, entity)
    if entity is not None:
        evaluated = evaluated.take(has_value(evaluated.columns[entity.name], query.value))
    found = entity_aggregates(evaluated, query.field, timeline, schema, settings, rows.reached_ms, _SHOWN_AGGREGATES)
    notes = [*rows.notes]
    if any(each.warm_up for each in found):
        notes.append("Aggregates do not count the payments that a warm-up added before the rule.")
    newest = range(len(batch) - 1, max(-1, len(batch) - 1 - _SHOWN_PAYMENTS), -1)
    return EntityReport(
        field=query.field,
        value=query.value,
        since=query.since_ms,
        reached=rows.reached_ms,
        notes=notes,
        count=len(batch),
        amount_field=None if amount is None else amount.name,
        period_ms=period_ms,
        periods=_periods(batch, amount, period_ms),
        payments=[batch.row(i, schema) for i in newest],
        counterparties=_counterparties(batch, query, timeline, schema, amount),
        aggregates=found,
        other_rules=rules_of_other_keys(timeline, query.field),
        restrictions=list(restrictions),
    )


def _periods(batch: TransactionBatch, amount: Field | None, period_ms: int) -> list[EntityPeriod]:
    starts = batch.columns[TIME_FIELD].values // period_ms * period_ms
    values, inverse = np.unique(starts, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(values))
    sums = _sums(batch, amount, inverse, len(values))
    return [
        EntityPeriod(start, count, total)
        for start, count, total in zip(values.tolist(), counts.tolist(), sums, strict=True)
    ]


def _counterparties(
    batch: TransactionBatch, query: EntityQuery, timeline: RuleTimeline, schema: TransactionSchema, amount: Field | None
) -> list[Counterparty]:
    """The values of other key fields. In the fields of its roles, an entity is no counterparty of itself."""
    keyed = {name for fields in timeline.latest.groupings for member in fields for name in schema.value_fields(member)}
    own = schema.value_fields(query.field)
    found: list[Counterparty] = []
    for declared in schema.fields:
        is_id = declared.type is FieldType.LONG or (declared.type is FieldType.STRING and declared.name in keyed)
        if is_id and declared.name not in (query.field, ID_FIELD) and len(batch):
            others = batch
            if declared.name in own:
                others = batch.take(~has_value(batch.columns[declared.name], query.value))
            found += _of_field(others, declared, amount)
    return found


def _of_field(batch: TransactionBatch, field: Field, amount: Field | None) -> list[Counterparty]:
    column = batch.columns[field.name]
    if column.valid is not None:
        batch = batch.take(column.valid)
        column = batch.columns[field.name]
    values, first, inverse = np.unique(column.values, return_index=True, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(values))
    last = np.zeros(len(values), dtype=np.int64)
    np.maximum.at(last, inverse, batch.columns[TIME_FIELD].values)
    sums = _sums(batch, amount, inverse, len(values))
    most = np.lexsort((-last, -counts))[:_SHOWN_COUNTERPARTIES].tolist()
    names = cells_of(column, first[most].tolist(), field)
    return [
        Counterparty(field.name, name, int(counts[i]), sums[i], int(last[i]))
        for i, name in zip(most, names, strict=True)
    ]


def _sums(batch: TransactionBatch, amount: Field | None, groups: np.ndarray, count: int) -> Sequence[str | None]:
    """The exact sum of the amounts of each group, as text; None without an amount field."""
    if amount is None:
        return [None] * count
    column = batch.columns[amount.name]
    totals = [0] * count
    valid = [True] * len(batch) if column.valid is None else column.valid.tolist()
    for group, value, counts in zip(groups.tolist(), column.values.tolist(), valid, strict=True):
        if counts:
            totals[group] += value
    return [format(Decimal(total).scaleb(-amount.scale), "f") for total in totals]

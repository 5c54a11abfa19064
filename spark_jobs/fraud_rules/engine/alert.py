"""Builds alerts as JSON from the output rows of the kernel.

Numbers are exact: the kernel returns integers, and this module converts them to decimals.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from fraud_rules.engine.named_outcomes import has_value
from fraud_rules.engine.state.previous_payments import PreviousColumns
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import aggregate_of, baseline_value
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.documents.alerts import (
    AlertDocument,
    BaselineDocument,
    ConditionDocument,
    PreviousDocument,
    RestrictionDocument,
)
from fraud_rules.model.documents.transactions import EvaluationDocument
from fraud_rules.model.expressions.unscaled import unscaled_text
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.rule import AggregateCondition, Baseline, PreviousRows, Rule, RuleAction
from fraud_rules.model.ruleset import RuleInForce
from fraud_rules.model.schema import ID_FIELD, ROLE, TIME_FIELD, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch, cells_of
from fraud_rules.model.value_list import CollectionKind

ALERT_NAMESPACE = uuid.UUID("6f0c9a52-2f5e-5b0c-9a53-8f6f7c1d2e40")
"""The namespace of alert ids (UUID version 5)."""

_TRANSACTION = b',"triggeringEvent":{'
"""The beginning of the transaction in an alert. No text before it contains these bytes, because JSON escapes quotes,
and the values of a key are scalars."""

_OUTCOMES: Final[Mapping[int, Literal["no", "alert", "suppressed", "signal"]]] = {
    at.FIRED_NO: "no",
    at.FIRED_YES: "alert",
    at.FIRED_SUPPRESSED: "suppressed",
    at.FIRED_SIGNAL: "signal",
    at.FIRED_PENDING: "no",
}
_CACHED_DOCUMENTS = 4096
_NAMESPACE = ALERT_NAMESPACE.bytes
_encoder = msgspec.json.Encoder(decimal_format="number")


def alert_id(
    rule_id: int,
    rule_version: int,
    key: Mapping[str, object],
    transaction_id: int | str,
    role: str | None = None,
) -> str:
    """Derive the id of an alert. The same alert has the same id in every evaluation. `role` is that of a row in a
    grouping by an entity."""
    of_row = () if role is None else (role,)
    name = _encoder.encode([rule_id, rule_version, sorted(key.items()), transaction_id, *of_row])
    return _uuid5_text(name)


def _uuid5_text(name: bytes) -> str:
    """`str(uuid.uuid5(ALERT_NAMESPACE, name))` in a third of the time (RFC 9562, section 5.5)."""
    digest = bytearray(hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def triggering_value(of: Rule | AggregateCondition, row: Sequence[int], schema: TransactionSchema) -> str:
    """The aggregate in an output row of the kernel (see O_* in `layout`), as a decimal without trailing zeros."""
    return aggregate_of(of).render(row, schema.scale_of(of.aggregate_field))


def limit_text(plan: GroupingPlan, limits: Sequence[Column], rule: int, i: int) -> str | None:
    """The limit of rule number `rule` of the plan at row i, as a decimal without trailing zeros; None if the limit is a
    literal or null. `limits` has the values of the plan's limits."""
    number = int(plan.rules.rows[rule, at.R_LIMIT]) if plan.limits else -1
    if number < 0:
        return None
    values, valid = limits[number].values, limits[number].valid
    if valid is not None and not valid[i]:
        return None
    return unscaled_text(int(values[i]), plan.limits[number].expression.digits.after)


def previous_payment(
    rule: Rule, previous: PreviousColumns, i: int, schema: TransactionSchema
) -> PreviousDocument | UnsetType | None:
    """The id and the fields of the previous payment that a rule has read at row i, decimals as text without trailing
    zeros; None without such a payment, UNSET for a rule that reads none. `previous` is empty if no rule of the grouping
    reads any, so the alerts of such a grouping pay nothing."""
    if not previous or not (names := rule.previous_fields):
        return UNSET
    columns = previous[PreviousRows(rule.filter, rule.window)]
    ids = columns[ID_FIELD].valid
    if ids is not None and not ids[i]:
        return None
    shown = [field for field in schema.fields if field.name == ID_FIELD or field.name in names]
    return {field.name: _shown(columns[field.name], i, field) for field in shown}


def _shown(column: Column, i: int, field: Field) -> object:
    if field.type is FieldType.DECIMAL and (column.valid is None or column.valid[i]):
        return unscaled_text(int(column.values[i]), field.scale)
    return cells_of(column, [i], field)[0]


def _baseline(
    rule: Rule, baseline: Baseline, row: Sequence[int], time_ms: int, schema: TransactionSchema
) -> BaselineDocument:
    """The baseline in an output row, for a transaction of this event time. It ends right before the window."""
    start_ms, end_ms = rule.whole_window.start_ms(time_ms), rule.window.start_ms(time_ms)
    assert start_ms is not None
    assert end_ms is not None, "no calendar window has a baseline"
    return BaselineDocument(
        value=baseline_value(rule, row, schema.scale_of(baseline.aggregate_field)),
        count=row[at.O_BASE_COUNT],
        window_start=start_ms,
        window_end=end_ms,
    )


def condition_documents(
    plan: GroupingPlan,
    rule: Rule,
    rows: Sequence[Sequence[int]],
    limits: Sequence[Column],
    batch: TransactionBatch,
    schema: TransactionSchema,
) -> list[ConditionDocument]:
    """The conditions of a rule that are aggregates, in their output rows. `limits` has the values of the plan's
    limits."""
    if not rows:
        return []
    found = []
    time_ms = int(batch.columns[TIME_FIELD].values[rows[0][at.O_ROW]])
    for condition, row in zip(rule.aggregate_conditions, rows, strict=True):
        start_ms = condition.window.start_ms(time_ms)
        is_known = start_ms is not None and has_value(condition, row)
        limit = limit_text(plan, limits, row[at.O_RULE], row[at.O_ROW])
        found.append(
            ConditionDocument(
                value=triggering_value(condition, row, schema) if is_known else None,
                count=row[at.O_COUNT],
                window_start=start_ms,
                holds=bool(row[at.O_FIRED]),
                limit=UNSET if condition.limit_expression is None else limit,
            )
        )
    return found


UsedVersions: TypeAlias = Mapping[CollectionKind, Mapping[str, int]]
_NOTHING: Final[UsedVersions] = {}


class _Payment(NamedTuple):
    """A row of the batch: its transaction with its JSON, append time, partition and offset, its grouping key, and in a
    grouping by an entity the name of its role."""

    event: dict[str, object]
    encoded: bytes
    key: dict[str, object]
    role: str | None
    append_ms: int
    partition: int
    offset: int


class AlertBuilder:
    """Builds the alerts of one batch of transactions. `fields` are the fields of the grouping, and `output` are the
    rows of the kernel from which it may build."""

    def __init__(
        self,
        batch: TransactionBatch,
        schema: TransactionSchema,
        fields: Sequence[str],
        detection_ms: int,
        output: Iterable[Sequence[int]],
    ) -> None:
        self._schema = schema
        self._entity = schema.entity_of(fields)
        self._detection_ms = detection_ms
        rows = list(dict.fromkeys([row[at.O_ROW] for row in output]))
        self._payments = _payments(batch, rows, schema, fields)

    def build(
        self,
        in_force: RuleInForce,
        row: Sequence[int],
        used: UsedVersions = _NOTHING,
        limit: str | None = None,
        previous: PreviousDocument | UnsetType | None = UNSET,
        conditions: Sequence[ConditionDocument] = (),
    ) -> AlertRecord:
        """Build the alert of an output row. Its O_ROW is the position of the transaction in the batch.

        `used` has the versions of the lists and maps that the rule names, by kind and name. `limit` is the value of its
        limit if this is an expression. `previous` is the result of `previous_payment`.
        """
        rule = in_force.rule
        event, encoded, key, role, append_ms, partition, offset = self._payments[row[at.O_ROW]]
        transaction_id: int | str = event[ID_FIELD]  # type: ignore[assignment]
        time_ms: int = event[TIME_FIELD]  # type: ignore[assignment]
        identity = alert_id(rule.rule_id, in_force.version, key, transaction_id, role)
        start_ms = rule.window.start_ms(time_ms)
        assert start_ms is not None  # a rule does not fire without its window
        alert = AlertDocument(
            alert_id=identity,
            rule_id=rule.rule_id,
            rule_version=in_force.version,
            shadow=rule.shadow,
            violated_rule=_document(in_force),
            key=key,
            triggering_value=triggering_value(rule, row, self._schema),
            triggering_event=msgspec.Raw(encoded),
            window_start=start_ms,
            window_end=time_ms,
            window_count=row[at.O_COUNT],
            window_complete=bool(row[at.O_COMPLETE]),
            suppressed=row[at.O_SUPPRESSED],
            event_time=time_ms,
            ingestion_time=append_ms,
            detection_time=self._detection_ms,
            baseline=UNSET if rule.baseline is None else _baseline(rule, rule.baseline, row, time_ms, self._schema),
            lists=used.get(CollectionKind.LIST, UNSET),
            maps=used.get(CollectionKind.MAP, UNSET),
            limit=UNSET if limit is None else limit,
            previous=previous,
            conditions=list(conditions) or UNSET,
            role=UNSET if role is None else role,
        )
        text = _encoder.encode(alert)
        transaction_at = text.index(_TRANSACTION) + len(_TRANSACTION) - 1
        restriction = None
        if rule.action is RuleAction.RESTRICT and not rule.shadow:
            restriction = _encoder.encode(RestrictionDocument(key, time_ms, identity, rule.rule_id))
        return AlertRecord(
            append_ms=append_ms,
            partition=partition,
            offset=offset,
            rule_id=rule.rule_id,
            alert_id=identity,
            shadow=rule.shadow,
            json=text,
            restriction=restriction,
            rule_version=in_force.version,
            weight=rule.weight,
            transaction_id=transaction_id,
            event_ms=time_ms,
            transaction_at=transaction_at,
            transaction_end=transaction_at + len(encoded),
            role=self._number(role),
        )

    def _number(self, role: str | None) -> int:
        """The number of a role among those of the entity; 0 in a grouping by fields."""
        return 0 if self._entity is None or role is None else self._entity.role_names.index(role)

    def encode_evaluation(self, in_force: RuleInForce, row: Sequence[int]) -> bytes:
        """Encode the evaluation of one rule for one transaction as JSON, for debugging."""
        payment, rule = self._payments[row[at.O_ROW]], in_force.rule
        event = payment.event
        value = triggering_value(rule, row, self._schema) if has_value(rule, row) else None
        return _encoder.encode(
            EvaluationDocument(
                rule_id=in_force.rule.rule_id,
                rule_version=in_force.version,
                key=payment.key,
                transaction_id=event[ID_FIELD],  # type: ignore[arg-type]
                event_time=event[TIME_FIELD],  # type: ignore[arg-type]
                value=value,
                window_count=row[at.O_COUNT],
                outcome=_OUTCOMES[row[at.O_FIRED]],
                role=UNSET if payment.role is None else payment.role,
            )
        )


def _payments(
    batch: TransactionBatch, indices: Sequence[int], schema: TransactionSchema, fields: Sequence[str]
) -> dict[int, _Payment]:
    """The rows at these positions, by position. Several rules often fire on one transaction."""
    if not indices:
        return {}
    events = batch.rows(indices, schema)
    rows = np.array(indices, np.int64)
    places = [each[rows].tolist() for each in (batch.append_ms, batch.partition, batch.offset)]
    encoded = map(_encoder.encode, events)
    known = events if schema.entity_of(fields) is None else batch.rows(indices, schema.of_rows(fields))
    keys = [{name: each[name] for name in fields} for each in known]
    roles = [None if known is events else each[ROLE] for each in known]
    return dict(zip(indices, map(_Payment, events, encoded, keys, roles, *places), strict=True))


_documents: dict[int, tuple[RuleInForce, msgspec.Raw]] = {}
"""The JSON of rules, by the ids of the objects, which the values keep alive."""


def _document(in_force: RuleInForce) -> msgspec.Raw:
    known = _documents.get(id(in_force))
    if known is None:
        if len(_documents) >= _CACHED_DOCUMENTS:
            _documents.clear()
        known = _documents[id(in_force)] = (in_force, msgspec.Raw(_encoder.encode(in_force.rule.document)))
    return known[1]

"""The value of one expression of a rule for a sample payment, computed by the tree that the detector evaluates."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal, TypeAlias

import numpy as np

from fraud_control.domain.item import ItemName
from fraud_control.domain.read_models import ProblemReason, SampleValue
from fraud_control.service.changes import UnitOfWork
from fraud_rules.codec.rules.members import MemberReader
from fraud_rules.codec.transactions.converters import column_of
from fraud_rules.codec.transactions.field_value import Value
from fraud_rules.codec.transactions.record import read_record
from fraud_rules.engine.lookups import lookup_columns
from fraud_rules.errors import Reason, RecordRejected, RuleRejected
from fraud_rules.model.collection_history import Collections, lookup_faults
from fraud_rules.model.declared.field_source import FieldSource
from fraud_rules.model.expressions.expression import Expression, ExpressionType
from fraud_rules.model.expressions.lookups import Lookup, lookups_of
from fraud_rules.model.expressions.previous import previous_column
from fraud_rules.model.expressions.unscaled import unscaled_text
from fraud_rules.model.schema import ROLE, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column
from fraud_rules.model.value_list import ValueList
from fraud_rules.model.value_map import ValueMap

ExpressionMember: TypeAlias = Literal["filter", "when", "limit"]
"""A member of a rule that may be an expression."""

_ZERO: Final = np.zeros(1, np.int64)
_NUMBER: Final = 100
_TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class _InForce:
    """The lists and maps in force, in place of the rule log."""

    collections: Collections

    def collections_at(self, _: int) -> Collections:
        """The lists and maps, whatever the number of entries."""
        return self.collections


@dataclass(frozen=True, slots=True)
class Sample:
    """A payment, and the previous payment of its key, as the client sent them: JSON, or CSV lines. None without one."""

    payment: str | None
    previous: str | None = None


def sample_value(
    work: UnitOfWork, member: ExpressionMember, text: str, sample: Sample, newest: str | None
) -> SampleValue:
    """Evaluate the text of a member for a payment, with the lists and maps in force.

    Without a payment in the sample, it is the `newest` one, or else one with any value of each field. Without a
    previous payment, `previous` gives null.
    """
    shown = sample.payment or newest or _example(work.reader.schema, work.now_ms)
    try:
        value = _value(work, member, text, Sample(shown, sample.previous))
    except RuleRejected as rejected:
        reasons = [ProblemReason.model_validate(each) for each in rejected.reasons]
        return SampleValue(value=None, reasons=reasons, payment=shown)
    return SampleValue(value=value, reasons=[], payment=shown)


def _value(work: UnitOfWork, member: ExpressionMember, text: str, sample: Sample) -> str | None:
    """The value as text; None for a null, and for an empty filter. An expression that reads the role has a value for
    each role of the first entity. Raises RuleRejected."""
    expression = _read(work, member, text)
    if not isinstance(expression, Expression):
        return None if expression is None else format(expression, "f")
    columns = _columns("payment", sample.payment, work.reader.schema)
    if expression.previous_fields:
        previous = _columns("previous", sample.previous, work.reader.schema)
        columns |= {previous_column(name): column for name, column in previous.items()}
    known = _in_force(work, member, expression.lookups)
    roles = _roles(work.reader.schema) if ROLE in expression.fields else ()
    values = [_evaluated(expression, columns | {ROLE: Column(_ZERO, None, (role,))}, known) for role in roles]
    if not values:
        return _evaluated(expression, columns, known)
    return ", ".join(f"{role}: {value or 'null'}" for role, value in zip(roles, values, strict=True))


def _roles(schema: TransactionSchema) -> Sequence[str]:
    return schema.entities[0].role_names if schema.entities else ()


def _evaluated(expression: Expression, columns: dict[str, Column], known: _InForce) -> str | None:
    looked_up = lookup_columns(lookups_of([expression]), known, columns, np.zeros(1, np.int64))
    return _shown(expression.evaluate(columns | looked_up, 1), expression)


def _read(work: UnitOfWork, member: ExpressionMember, text: str) -> Expression | Decimal | None:
    """The member as the decoder of rules reads it. Raises RuleRejected."""
    grouping = [each.name for each in work.reader.schema.entities[:1]]
    members = MemberReader({member: text, "groupingKeyNames": grouping}, work.reader.schema, work.reader.limits, [])
    found: Expression | Decimal | None
    match member:
        case "limit":
            found = members.limit()
        case "when":
            found = members.when()
        case "filter":
            found = members.filter()
    if members.reasons:
        raise RuleRejected(members.reasons)
    return found


def _columns(member: str, payment: str | None, schema: TransactionSchema) -> dict[str, Column]:
    """The columns of a payment, with one row; all null without a payment. Raises RuleRejected, for the member.

    Alerts and pages write the fields under their own names and in their own units, whatever the records have.
    """
    plain = TransactionSchema(tuple(replace(each, source=FieldSource()) for each in schema.fields))
    row: Sequence[Value] | None = [None] * len(plain.fields)
    if payment is not None:
        try:
            row = read_record(payment.encode("utf-8", "replace"), plain)
        except RecordRejected as rejected:
            raise RuleRejected([Reason(member, str(rejected))]) from rejected
    assert row is not None  # only an envelope can hold no payment
    return {field.name: column_of(field, [value]) for field, value in zip(plain.fields, row, strict=True)}


def _in_force(work: UnitOfWork, member: ExpressionMember, lookups: Collection[Lookup]) -> _InForce:
    """The lists and maps that the look-ups read. Raises RuleRejected for a missing one, or one of another type."""
    published = {
        name: work.contents.published(work.session, ItemName.of_collection((kind, name)))
        for kind, name in {each.collection for each in lookups}
    }
    known = Collections(
        {name: values for name, values in published.items() if isinstance(values, ValueList)},
        {name: values for name, values in published.items() if isinstance(values, ValueMap)},
    )
    faults = lookup_faults(
        ((member, each) for each in lookups),
        lambda named: None if (values := known.of(named)) is None else values.type,
    )
    if faults:
        raise RuleRejected(faults)
    return _InForce(known)


def _shown(column: Column, expression: Expression) -> str | None:
    """The value of the only row as text: of a condition or a number."""
    if column.valid is not None and not column.valid[0]:
        return None
    value = int(column.values[0])
    if expression.kind is ExpressionType.BOOLEAN:
        return "true" if value else "false"
    return unscaled_text(value, expression.digits.after)


def _example(schema: TransactionSchema, now_ms: int) -> str:
    """A payment with a value for each field."""
    return json.dumps({field.name: _example_value(field, now_ms) for field in schema.fields}, indent=2)


def _example_value(field: Field, now_ms: int) -> int | str | bool:
    match field.type:
        case FieldType.TIMESTAMP:
            return now_ms
        case FieldType.BOOLEAN:
            return True
        case FieldType.STRING:
            return next(iter(field.display.values), _TEXT)
        case FieldType.DECIMAL:
            return min(_NUMBER, int(10 ** (field.precision - field.scale)) - 1)
        case _:
            return _NUMBER

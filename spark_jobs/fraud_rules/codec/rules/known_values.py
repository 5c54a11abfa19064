"""Finds texts in a rule's conditions that the schema does not list among the known values of their field."""

from __future__ import annotations

from collections.abc import Iterator

from fraud_rules.errors import Reason
from fraud_rules.model.expressions.expression import Constant, Expression, FieldRef
from fraud_rules.model.expressions.predicate import Comparison, Membership
from fraud_rules.model.expressions.previous import PreviousValue
from fraud_rules.model.rule import AggregateCondition, Rule
from fraud_rules.model.schema import TransactionSchema


def unknown_values(rule: Rule, schema: TransactionSchema) -> list[Reason]:
    """List the unknown texts by member. Such a rule is valid, but its condition may never be true."""
    schema = schema.of_expressions(rule.grouping)
    past = None if rule.baseline is None else rule.baseline.filter
    conditions = [
        ("filter", rule.filter),
        *rule.judged_once,
        ("baseline.filter", past),
        *(
            (f"conditions[{i}].filter", each.filter)
            for i, each in enumerate(rule.conditions)
            if isinstance(each, AggregateCondition)
        ),
    ]
    warnings: list[Reason] = []
    for member, condition in conditions:
        for name, text in () if condition is None else _texts(condition):
            field = schema.field(name)
            known = () if field is None else field.display.values
            if known and text not in known:
                warnings.append(Reason(member, f"{name} has the known values {', '.join(known)}, but not {text!r}"))
    return list(dict.fromkeys(warnings))


def _texts(condition: Expression) -> Iterator[tuple[str, str]]:
    """Yield the fields and the texts with which a condition compares them for equality."""
    match condition:
        case Comparison(FieldRef(name) | PreviousValue(FieldRef(name)), "=" | "!=", Constant(str() as text)):
            yield name, text
        case Membership(FieldRef(name) | PreviousValue(FieldRef(name)), literals):
            yield from ((name, text) for text in literals if isinstance(text, str))
        case _:
            for part in condition.operands:
                yield from _texts(part)

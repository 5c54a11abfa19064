"""The oracle's expressions that read more than the fields of their row: a list, an entry of a map, the previous
payment, the rule's own aggregate, or the role of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fraud_rules.model.schema import FieldType
from tests.support.oracle.expressions import NO_DIGITS, Digits, Expression, Kind, Truth, Values
from tests.support.oracle.needs import OWN, PREVIOUS, Needs, Scope, list_key, map_key
from tests.support.oracle.refusal import FilterRefused
from tests.support.oracle.stream import ROLE


def in_list(left: Expression, name: str, scope: Scope, needs: Needs) -> Expression:
    """`left in list('name')`."""
    if scope is not Scope.WHEN:
        raise FilterRefused("lists are for `when` only")
    needed = needs.lists.setdefault(name, set())
    needed.add(_stored_type(left))
    if len(needed) > 1:
        raise FilterRefused(f"the list {name} is compared with expressions of two types")

    def read(row: Values) -> Truth:
        value = left.read(row)
        return None if value is None else value in row[list_key(name)]

    return Expression(Kind.BOOLEAN, read)


def in_map(function: str, name: str, key: Expression, scope: Scope, needs: Needs) -> Expression:
    """`map('name', key)`, a number, or `map_text('name', key)`, a text: null without an entry."""
    if scope is Scope.FILTER:
        raise FilterRefused("maps are for `when` and `limit` only")
    value_type = FieldType.DECIMAL if function == "map" else FieldType.STRING
    needed = needs.maps.setdefault(name, set())
    needed.add((_stored_type(key), value_type))
    if len(needed) > 1:
        raise FilterRefused(f"the map {name} is read with two types")
    kind, digits = (Kind.NUMBER, Digits(12, 6)) if function == "map" else (Kind.TEXT, NO_DIGITS)
    return Expression(kind, lambda row: row[map_key(name)].get(key.read(row)), digits, names_field=key.names_field)


def previous(arguments: Sequence[Expression], scope: Scope, needs: Needs) -> Expression:
    """`previous(field)`: the field in the previous payment, null without one."""
    if scope is Scope.FILTER:
        raise FilterRefused("previous is for `when` and `limit` only")
    if len(arguments) != 1 or arguments[0].field is None:
        raise FilterRefused("previous takes a field")
    named = arguments[0]
    if named.field.name not in needs.previous:
        needs.previous.append(named.field.name)
    return replace(named, read=lambda row: None if row[PREVIOUS] is None else named.read(row[PREVIOUS]), field=None)


def own(digits: Digits, scope: Scope) -> Expression:
    """`own()`: the value of the rule's own aggregate, null without one."""
    if scope is not Scope.CONDITION_LIMIT:
        raise FilterRefused("own is for the limits of conditions only")
    return Expression(Kind.NUMBER, lambda row: row[OWN], digits, names_field=False)


def role(needs: Needs) -> Expression:
    """`role`: the name of the role of an entity's row."""
    needs.role = True
    return Expression(Kind.TEXT, lambda row: row[ROLE])


def _stored_type(expression: Expression) -> FieldType:
    """The type of list or of key that an expression needs: a text, or a whole number."""
    if expression.kind is Kind.TEXT:
        return FieldType.STRING
    if expression.kind is not Kind.NUMBER or expression.digits.after:
        raise FilterRefused("lists and the keys of maps are whole numbers or texts")
    return FieldType.LONG

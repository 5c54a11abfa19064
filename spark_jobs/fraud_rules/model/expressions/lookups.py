"""Look-ups in lists and maps: expressions whose values a batch finds once for all its rows, before it evaluates them.

The rows of a batch may have different versions of a list or map. So an expression reads a column with the results, and
`engine.lookups` fills it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fraud_rules.model.expressions.columnwise import Mask, where_known
from fraud_rules.model.expressions.expression import Columns, Digits, Expression, ExpressionType, Rank
from fraud_rules.model.expressions.predicate import OfOne
from fraud_rules.model.transaction import Column
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListType
from fraud_rules.model.value_map import MAP_SCALE, MapType, MapValueType

MAP_FUNCTIONS: Final = {"map": MapValueType.DECIMAL, "map_text": MapValueType.STRING}
"""The functions that look maps up, with the type of the maps' values."""

_FUNCTION_OF: Final = {value_type: name for name, value_type in MAP_FUNCTIONS.items()}
_NUMBERS: Final = Digits(12, MAP_SCALE)
_NO_DIGITS: Final = Digits(0, 0)


@dataclass(frozen=True, slots=True)
class ListMembership(OfOne):
    """`item in list('name')`, or `item not in list('name')` if negated. The item is a text or a whole number.

    The columns must contain the column `column`, whose values are 1 where the item's value is listed. It is null where
    the item is.
    """

    name: str
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        listed = columns[self.column]
        holds = listed.values != 0
        return where_known(~holds if self.negated else holds, listed.valid)

    @property
    def lookups(self) -> frozenset[Lookup]:
        return self.item.lookups | {self}

    @property
    def collection(self) -> CollectionName:
        """The list."""
        return CollectionKind.LIST, self.name

    @property
    def type(self) -> ListType:
        """The type that the list must have."""
        return _type_of(self.item)

    @property
    def column(self) -> str:
        """The name of the column with the result of the lookup. It is no field's name."""
        return f"{self.item.text(Rank.SUM)} in list('{self.name}')"

    def __str__(self) -> str:
        return f"{self.item.text(Rank.SUM)} {'not in' if self.negated else 'in'} list('{self.name}')"


@dataclass(frozen=True, slots=True)
class MapLookup(Expression):
    """`map('name', item)` or `map_text('name', item)`: the value of the item in a map, null for a missing key. The item
    is a text or a whole number. The columns must contain the column `column` with the values."""

    item: Expression
    name: str
    value_type: MapValueType

    def evaluate(self, columns: Columns, n: int) -> Column:
        return columns[self.column]

    @property
    def kind(self) -> ExpressionType:
        return ExpressionType.NUMBER if self.value_type is MapValueType.DECIMAL else ExpressionType.TEXT

    @property
    def digits(self) -> Digits:
        return _NUMBERS if self.value_type is MapValueType.DECIMAL else _NO_DIGITS

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.item,)

    @property
    def lookups(self) -> frozenset[Lookup]:
        return self.item.lookups | {self}

    @property
    def collection(self) -> CollectionName:
        """The map."""
        return CollectionKind.MAP, self.name

    @property
    def type(self) -> MapType:
        """The types that the map must have."""
        return MapType(_type_of(self.item), self.value_type)

    @property
    def column(self) -> str:
        """The name of the column with the values. It is no field's name."""
        return str(self)

    def __str__(self) -> str:
        return f"{_FUNCTION_OF[self.value_type]}('{self.name}', {self.item})"


Lookup: TypeAlias = ListMembership | MapLookup


def lookups_of(expressions: Iterable[Expression]) -> tuple[Lookup, ...]:
    """The distinct look-ups of expressions. One inside another one has the shorter text, so it comes first."""
    found = frozenset[Lookup]().union(*(each.lookups for each in expressions))
    return tuple(sorted(found, key=lambda each: len(str(each))))


def _type_of(item: Expression) -> ListType:
    """The type of a list's values, or a map's keys, in which the item is looked up."""
    return ListType.STRING if item.kind is ExpressionType.TEXT else ListType.LONG

"""The typed tree of a rule's filter, and its evaluation over columns.

Logic is three-valued, as in SQL: a comparison with a null is neither true nor false, and a row passes only if the
filter is true. So each node computes two masks: the rows where it is true, and the rows where it is false. `and`, `or`
and `not` combine these masks with Kleene's logic. `columnwise` has the comparisons.

`codec.rules.filter` builds the nodes and checks their types. `str` of a node is its canonical text, which parses to an
equal tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fraud_rules.model.columnwise import (
    COMPARE,
    COMPARE_TEXT,
    Mask,
    both_valid,
    compare_number,
    compare_scaled,
    is_one_of,
    of_strings,
    ranks,
    where_known,
)
from fraud_rules.model.schema import FieldType

if TYPE_CHECKING:
    from fraud_rules.model.transaction import Column

Literal: TypeAlias = Decimal | str
Columns: TypeAlias = "Mapping[str, Column]"


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A declared field in a filter: canonical name, type, and scale (0 unless decimal)."""

    name: str
    type: FieldType
    scale: int = 0

    def __str__(self) -> str:
        return self.name


class Predicate(ABC):
    """A condition on one transaction. Predicates are frozen and hashable, and equal if their trees are equal."""

    __slots__ = ()

    def mask(self, columns: Columns, n: int) -> Mask:
        """The rows where the condition is true: bool[n], read-only. `columns` holds each of `fields` with n rows."""
        return self.truth_masks(columns, n)[0]

    @abstractmethod
    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        """The rows where the condition is true, and the rows where it is false. In all other rows it is unknown. Both
        masks are read-only."""

    @property
    @abstractmethod
    def fields(self) -> frozenset[str]:
        """All fields that the condition reads."""

    @property
    def memberships(self) -> frozenset[ListMembership]:
        """The conditions on lists in this condition."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`field <op> literal`. The literal is a str for a string field, otherwise a number (epoch ms for a timestamp)."""

    field: FieldRef
    operator: str
    literal: Literal

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = columns[self.field.name]
        if isinstance(self.literal, str):
            holds = of_strings(column, lambda text: COMPARE_TEXT[self.operator](text, str(self.literal)))
        else:
            holds = compare_number(column.values, self.operator, self.literal, self.field.scale)
        return where_known(holds, column.valid)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    def __str__(self) -> str:
        return f"{self.field} {self.operator} {literal_text(self.literal)}"


@dataclass(frozen=True, slots=True)
class Flag(Predicate):
    """A boolean field as a condition by itself: true or false as the field is, unknown where it is null."""

    field: FieldRef

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = columns[self.field.name]
        return where_known(column.values != 0, column.valid)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    def __str__(self) -> str:
        return str(self.field)


@dataclass(frozen=True, slots=True)
class FieldComparison(Predicate):
    """`field <op> field`. The fields are two strings, two timestamps, two booleans (`=` and `!=` only), or two numbers
    of any scale."""

    left: FieldRef
    operator: str
    right: FieldRef

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        left, right = columns[self.left.name], columns[self.right.name]
        if self.left.type is FieldType.STRING:
            holds = COMPARE[self.operator](*ranks(left, right))
        else:
            holds = compare_scaled(left.values, self.left.scale, self.operator, right.values, self.right.scale)
        return where_known(holds, both_valid(left.valid, right.valid))

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.left.name, self.right.name))

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class Membership(Predicate):
    """`field in (...)`, or `field not in (...)` if negated. The literals are distinct and sorted."""

    field: FieldRef
    literals: tuple[Literal, ...]
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = columns[self.field.name]
        texts = frozenset(literal for literal in self.literals if isinstance(literal, str))
        if texts:
            holds = of_strings(column, texts.__contains__)
        else:
            numbers = [literal for literal in self.literals if isinstance(literal, Decimal)]
            holds = is_one_of(column.values, numbers, self.field.scale)
        return where_known(~holds if self.negated else holds, column.valid)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    def __str__(self) -> str:
        listed = ", ".join(map(literal_text, self.literals))
        return f"{self.field} {'not in' if self.negated else 'in'} ({listed})"


@dataclass(frozen=True, slots=True)
class ListMembership(Predicate):
    """`field in list('name')`, or `field not in list('name')` if negated.

    The columns must contain the column `column`, whose values are 1 where the field's value is listed. It is null where
    the field is, because the rows of a batch may have different versions of the list.
    """

    field: FieldRef
    list_name: str
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        listed = columns[self.column]
        holds = listed.values != 0
        return where_known(~holds if self.negated else holds, listed.valid)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    @property
    def memberships(self) -> frozenset[ListMembership]:
        return frozenset((self,))

    @property
    def column(self) -> str:
        """The name of the column with the result of the lookup. It is no field's name."""
        return f"{self.field} in list('{self.list_name}')"

    def __str__(self) -> str:
        return f"{self.field} {'not in' if self.negated else 'in'} list('{self.list_name}')"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`field is null`, or `field is not null` if negated. It is never unknown."""

    field: FieldRef
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        valid = columns[self.field.name].valid
        present = np.ones(n, dtype=np.bool_) if valid is None else valid
        return (present, ~present) if self.negated else (~present, present)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    def __str__(self) -> str:
        return f"{self.field} {'is not null' if self.negated else 'is null'}"


@dataclass(frozen=True, slots=True)
class _Combination(Predicate):
    """Two or more conditions."""

    items: tuple[Predicate, ...]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset().union(*(item.fields for item in self.items))

    @property
    def memberships(self) -> frozenset[ListMembership]:
        return frozenset().union(*(item.memberships for item in self.items))


@dataclass(frozen=True, slots=True)
class And(_Combination):
    """The conjunction of two or more conditions. The conditions are not `And` nodes themselves."""

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth_masks(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_and, true), reduce(np.logical_or, false)

    def __str__(self) -> str:
        return " and ".join(f"({item})" if isinstance(item, Or) else str(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Or(_Combination):
    """The disjunction of two or more conditions. The conditions are not `Or` nodes themselves."""

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth_masks(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_or, true), reduce(np.logical_and, false)

    def __str__(self) -> str:
        return " or ".join(map(str, self.items))


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The negation of a condition. It is unknown where the condition is. The condition is not a `Not` node itself."""

    item: Predicate

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = self.item.truth_masks(columns, n)
        return false, true

    @property
    def fields(self) -> frozenset[str]:
        return self.item.fields

    @property
    def memberships(self) -> frozenset[ListMembership]:
        return self.item.memberships

    def __str__(self) -> str:
        return f"not ({self.item})"


def literal_text(literal: Literal) -> str:
    """Format a literal in the filter language: quoted text with doubled quotes, or a number without an exponent."""
    if isinstance(literal, str):
        return "'" + literal.replace("'", "''") + "'"
    return format(literal, "f")

"""The typed tree of a rule's filter, and its truth over columns.

Logic is three-valued, as in SQL: a comparison with a null is neither true nor false, and only what is true passes. So
each node yields two masks, where it is true and where it is false; `and`, `or` and `not` are then plain set algebra
(Kleene). The comparisons themselves are in `columnwise`.

Nodes are built by `filter.parse_filter`, which has checked the types. `str` of a node is its canonical text, which
parses back to an equal tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fraud_rules.columnwise import (
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
from fraud_rules.schema import FieldType

if TYPE_CHECKING:
    from fraud_rules.transaction import Column

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
    """A condition on one transaction. Frozen and hashable; equal when the trees are equal."""

    __slots__ = ()

    def mask(self, columns: Columns, n: int) -> Mask:
        """Where the condition is TRUE: bool[n], not to be changed. `columns` has each of `fields`, n rows."""
        return self.truth(columns, n)[0]

    @abstractmethod
    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        """Where it is true and where it is false; elsewhere it is unknown. Neither mask may be changed."""

    @property
    @abstractmethod
    def fields(self) -> frozenset[str]:
        """Every field it reads."""


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`field <op> literal`. The literal is a str for a string field, else a number (epoch ms for a timestamp)."""

    field: FieldRef
    operator: str
    literal: Literal

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
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
class FieldComparison(Predicate):
    """`field <op> field`, both strings, both timestamps, or both numbers (of any scale)."""

    left: FieldRef
    operator: str
    right: FieldRef

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
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
    """`field in (...)`; the literals are distinct and sorted."""

    field: FieldRef
    literals: tuple[Literal, ...]
    negated: bool = False

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
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
class IsNull(Predicate):
    """`field is null`: never unknown."""

    field: FieldRef
    negated: bool = False

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        valid = columns[self.field.name].valid
        present = np.ones(n, dtype=np.bool_) if valid is None else valid
        return (present, ~present) if self.negated else (~present, present)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    def __str__(self) -> str:
        return f"{self.field} {'is not null' if self.negated else 'is null'}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All of two or more conditions; none of them is an `And` itself."""

    items: tuple[Predicate, ...]

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_and, true), reduce(np.logical_or, false)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset().union(*(item.fields for item in self.items))

    def __str__(self) -> str:
        return " and ".join(f"({item})" if isinstance(item, Or) else str(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Any of two or more conditions; none of them is an `Or` itself."""

    items: tuple[Predicate, ...]

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_or, true), reduce(np.logical_and, false)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset().union(*(item.fields for item in self.items))

    def __str__(self) -> str:
        return " or ".join(map(str, self.items))


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The opposite, unknown where the condition is unknown; its item is not a `Not` itself."""

    item: Predicate

    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = self.item.truth(columns, n)
        return false, true

    @property
    def fields(self) -> frozenset[str]:
        return self.item.fields

    def __str__(self) -> str:
        return f"not ({self.item})"


def literal_text(literal: Literal) -> str:
    """A literal as the grammar reads it: quoted text with quotes doubled, or a number without an exponent."""
    if isinstance(literal, str):
        return "'" + literal.replace("'", "''") + "'"
    return format(literal, "f")

"""The typed tree of a rule's filter, and its truth over columns.

Logic is three-valued, as in SQL: a comparison with a null is neither true nor false, and only what is true passes. So
each node yields two masks, where it is true and where it is false; `and`, `or` and `not` are then plain set algebra
(Kleene). Values are compared exactly: a decimal column holds unscaled integers, and a literal with more digits than the
scale becomes a bound between two of them.

Nodes are built by `filter.parse_filter`, which has checked the types. `str` of a node is its canonical text, which
parses back to an equal tree.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import floor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.schema import FieldType

if TYPE_CHECKING:
    from fraud_rules.transaction import Column

Mask: TypeAlias = NDArray[np.bool_]
Literal: TypeAlias = Decimal | str
Columns: TypeAlias = "Mapping[str, Column]"

_COMPARE: dict[str, Callable[[NDArray[np.int64], NDArray[np.int64] | int], Mask]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARE_TEXT: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_INT64 = np.iinfo(np.int64)


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
        """Where the condition is TRUE: bool[n]. `columns` has every field of `fields`, n rows each."""
        return self.truth(columns, n)[0]

    @abstractmethod
    def truth(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        """Where it is true and where it is false; elsewhere it is unknown. Masks must not be changed by the caller."""

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
            holds = _of_strings(column, lambda text: _COMPARE_TEXT[self.operator](text, str(self.literal)))
        else:
            holds = _compare_number(column.values, self.operator, self.literal, self.field.scale)
        return _known(holds, column.valid)

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
            holds = _COMPARE[self.operator](*_ranks(left, right))
        else:
            holds = _compare_scaled(left.values, self.left.scale, self.operator, right.values, self.right.scale)
        return _known(holds, _both(left.valid, right.valid))

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
            holds = _of_strings(column, texts.__contains__)
        else:
            numbers = (
                _unscaled(literal, self.field.scale) for literal in self.literals if not isinstance(literal, str)
            )
            held = [number.numerator for number in numbers if _is_int64(number)]
            holds = np.isin(column.values, np.array(held, dtype=np.int64))
        return _known(~holds if self.negated else holds, column.valid)

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


def _known(holds: Mask, valid: Mask | None) -> tuple[Mask, Mask]:
    """True and false masks of a condition that is unknown where a value is null."""
    return (holds, ~holds) if valid is None else (holds & valid, ~holds & valid)


def _both(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _unscaled(literal: Decimal, scale: int) -> Fraction:
    return Fraction(literal) * int(10**scale)


def _is_int64(number: Fraction) -> bool:
    return number.denominator == 1 and _INT64.min <= number.numerator <= _INT64.max


def _compare_number(values: NDArray[np.int64], sign: str, literal: Decimal, scale: int) -> Mask:
    """Compare unscaled values with a literal of any size and number of digits, exactly."""
    bound = _unscaled(literal, scale)
    if _is_int64(bound):
        return _COMPARE[sign](values, bound.numerator)
    if sign in ("=", "!="):
        return np.full(len(values), sign == "!=", dtype=np.bool_)
    # No value equals the bound, so `<` is `<=` its floor, and `>` is the opposite.
    below = floor(bound)
    if not _INT64.min <= below <= _INT64.max:
        under = np.full(len(values), below > 0, dtype=np.bool_)
    else:
        under = values <= below
    return under if sign in ("<", "<=") else ~under


def _compare_scaled(a: NDArray[np.int64], a_scale: int, sign: str, b: NDArray[np.int64], b_scale: int) -> Mask:
    """Compare unscaled values of two scales without widening either: the finer side is split by the power of ten."""
    if a_scale == b_scale:
        return _COMPARE[sign](a, b)
    if a_scale > b_scale:
        mirrored = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(sign, sign)
        return _compare_scaled(b, b_scale, mirrored, a, a_scale)
    whole, rest = np.divmod(b, np.int64(10 ** (b_scale - a_scale)))
    order = np.where(a != whole, np.where(a < whole, -1, 1), np.where(rest > 0, -1, 0)).astype(np.int64)
    return _COMPARE[sign](order, 0)


def _of_strings(column: Column, holds: Callable[[str], bool]) -> Mask:
    """Decide once for each distinct string, then look up. A column of nulls has an empty dictionary."""
    table = np.fromiter((holds(text) for text in column.dictionary or ()), dtype=np.bool_)
    return table[column.values] if len(table) else np.zeros(len(column.values), dtype=np.bool_)


def _ranks(a: Column, b: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both string columns as positions in their one sorted vocabulary (sorted by code point)."""
    vocabulary = sorted({*(a.dictionary or ()), *(b.dictionary or ())})
    rank = {text: position for position, text in enumerate(vocabulary)}
    return _ranked(a, rank), _ranked(b, rank)


def _ranked(column: Column, rank: Mapping[str, int]) -> NDArray[np.int64]:
    table = np.array([rank[text] for text in column.dictionary or ()], dtype=np.int64)
    return table[column.values] if len(table) else np.zeros(len(column.values), dtype=np.int64)

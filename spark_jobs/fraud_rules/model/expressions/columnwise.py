"""Comparisons over whole columns, exact to the last digit: the leaves of `predicate`.

A decimal column holds unscaled integers, so a literal is converted to the column's scale as a fraction. A literal with
more digits than the scale lies between two values. A comparison of strings is evaluated once per distinct string.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fraud_rules.model.transaction import Column

Mask: TypeAlias = NDArray[np.bool_]
Entry = TypeVar("Entry", np.bool_, np.int64)

_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
COMPARE: Mapping[str, Callable[[NDArray[Any], NDArray[Any] | int | Fraction], Mask]] = _SIGNS
COMPARE_TEXT: Mapping[str, Callable[[str, str], bool]] = _SIGNS
_INT64 = np.iinfo(np.int64)


def where_known(holds: Mask, valid: Mask | None) -> tuple[Mask, Mask]:
    """The masks of true and of false rows, for a condition that is unknown where a value is null."""
    return (holds, ~holds) if valid is None else (holds & valid, ~holds & valid)


def both_valid(a: Mask | None, b: Mask | None) -> Mask | None:
    """The mask of rows where neither value is null; None if neither column has nulls."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


@lru_cache(4_096)
def _unscaled(literal: Decimal, scale: int) -> Fraction:
    return Fraction(literal) * int(10**scale)


def _is_int64(number: Fraction) -> bool:
    return number.denominator == 1 and _INT64.min <= number.numerator <= _INT64.max


def compare_number(values: NDArray[Any], sign: str, literal: Decimal, scale: int) -> Mask:
    """Compare unscaled values with a literal of any size and number of digits, exactly."""
    bound = _unscaled(literal, scale)
    if _is_int64(bound):
        return COMPARE[sign](values, bound.numerator)
    if values.dtype == object:
        return COMPARE[sign](values, bound)
    if sign in ("=", "!="):
        return np.full(len(values), sign == "!=", dtype=np.bool_)
    # No value equals the bound, so `<` is `<=` its floor, and `>` is the opposite.
    below = floor(bound)
    if not _INT64.min <= below <= _INT64.max:
        under = np.full(len(values), below > 0, dtype=np.bool_)
    else:
        under = values <= below
    return under if sign in ("<", "<=") else ~under


def is_one_of(values: NDArray[Any], literals: Iterable[Decimal], scale: int) -> Mask:
    """Whether unscaled values equal any of the literals, exactly."""
    bounds = [_unscaled(literal, scale) for literal in literals]
    if values.dtype == object:
        return np.fromiter(map(frozenset(bounds).__contains__, values), dtype=np.bool_, count=len(values))
    return np.isin(values, np.array([bound.numerator for bound in bounds if _is_int64(bound)], dtype=np.int64))


def of_strings(column: Column, holds: Callable[[str], bool]) -> Mask:
    """Evaluate each distinct string once, then look up each row. A column of nulls has an empty dictionary."""
    return _looked_up(column, np.fromiter(map(holds, column.dictionary or ()), dtype=np.bool_))


def lengths(column: Column) -> NDArray[np.int64]:
    """The number of code points of each text."""
    return _looked_up(column, np.fromiter(map(len, column.dictionary or ()), dtype=np.int64))


def ranks(a: Column, b: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both string columns as positions in their joint vocabulary, sorted by code point."""
    vocabulary = sorted({*(a.dictionary or ()), *(b.dictionary or ())})
    rank = {text: position for position, text in enumerate(vocabulary)}
    return _ranked(a, rank), _ranked(b, rank)


def _ranked(column: Column, rank: Mapping[str, int]) -> NDArray[np.int64]:
    return _looked_up(column, np.fromiter(map(rank.__getitem__, column.dictionary or ()), dtype=np.int64))


def _looked_up(column: Column, table: NDArray[Entry]) -> NDArray[Entry]:
    """The entry of each row's text. `table` has an entry for each text of the dictionary."""
    return table[column.values] if len(table) else np.zeros(len(column.values), dtype=table.dtype)

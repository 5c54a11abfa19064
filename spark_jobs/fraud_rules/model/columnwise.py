"""Comparisons over whole columns, exact to the last digit: the leaves of `predicate`.

A decimal column holds unscaled integers, so a literal is converted to the column's scale as a fraction. A literal with
more digits than the scale lies between two values. A comparison of strings is evaluated once per distinct string.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fraud_rules.model.transaction import Column

Mask: TypeAlias = NDArray[np.bool_]

COMPARE: dict[str, Callable[[NDArray[np.int64], NDArray[np.int64] | int], Mask]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
COMPARE_TEXT: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_INT64 = np.iinfo(np.int64)


def where_known(holds: Mask, valid: Mask | None) -> tuple[Mask, Mask]:
    """The masks of true and of false rows, for a condition that is unknown where a value is null."""
    return (holds, ~holds) if valid is None else (holds & valid, ~holds & valid)


def both_valid(a: Mask | None, b: Mask | None) -> Mask | None:
    """The mask of rows where neither value is null; None if neither column has nulls."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _unscaled(literal: Decimal, scale: int) -> Fraction:
    return Fraction(literal) * int(10**scale)


def _is_int64(number: Fraction) -> bool:
    return number.denominator == 1 and _INT64.min <= number.numerator <= _INT64.max


def compare_number(values: NDArray[np.int64], sign: str, literal: Decimal, scale: int) -> Mask:
    """Compare unscaled values with a literal of any size and number of digits, exactly."""
    bound = _unscaled(literal, scale)
    if _is_int64(bound):
        return COMPARE[sign](values, bound.numerator)
    if sign in ("=", "!="):
        return np.full(len(values), sign == "!=", dtype=np.bool_)
    # No value equals the bound, so `<` is `<=` its floor, and `>` is the opposite.
    below = floor(bound)
    if not _INT64.min <= below <= _INT64.max:
        under = np.full(len(values), below > 0, dtype=np.bool_)
    else:
        under = values <= below
    return under if sign in ("<", "<=") else ~under


def is_one_of(values: NDArray[np.int64], literals: Iterable[Decimal], scale: int) -> Mask:
    """Whether unscaled values equal any of the literals, exactly."""
    bounds = [_unscaled(literal, scale) for literal in literals]
    return np.isin(values, np.array([bound.numerator for bound in bounds if _is_int64(bound)], dtype=np.int64))


def compare_scaled(a: NDArray[np.int64], a_scale: int, sign: str, b: NDArray[np.int64], b_scale: int) -> Mask:
    """Compare unscaled values of two scales without overflow: the finer side is divided by the power of ten."""
    if a_scale == b_scale:
        return COMPARE[sign](a, b)
    if a_scale > b_scale:
        mirrored = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(sign, sign)
        return compare_scaled(b, b_scale, mirrored, a, a_scale)
    whole, rest = np.divmod(b, np.int64(10 ** (b_scale - a_scale)))
    order = np.where(a != whole, np.where(a < whole, -1, 1), np.where(rest > 0, -1, 0)).astype(np.int64)
    return COMPARE[sign](order, 0)


def of_strings(column: Column, holds: Callable[[str], bool]) -> Mask:
    """Evaluate each distinct string once, then look up each row. A column of nulls has an empty dictionary."""
    table = np.fromiter((holds(text) for text in column.dictionary or ()), dtype=np.bool_)
    return table[column.values] if len(table) else np.zeros(len(column.values), dtype=np.bool_)


def ranks(a: Column, b: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both string columns as positions in their joint vocabulary, sorted by code point."""
    vocabulary = sorted({*(a.dictionary or ()), *(b.dictionary or ())})
    rank = {text: position for position, text in enumerate(vocabulary)}
    return _ranked(a, rank), _ranked(b, rank)


def _ranked(column: Column, rank: Mapping[str, int]) -> NDArray[np.int64]:
    table = np.array([rank[text] for text in column.dictionary or ()], dtype=np.int64)
    return table[column.values] if len(table) else np.zeros(len(column.values), dtype=np.int64)

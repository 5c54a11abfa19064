"""Exact arithmetic on arrays of unscaled integers.

The arrays are int64 while nothing can overflow, which the largest absolute values of the operands show. Otherwise they
are arrays of Python integers, which are exact at any size and slower. An array of one value stands for all rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.expressions.columnwise import COMPARE, Mask

Integers: TypeAlias = NDArray[Any]
"""int64[n], or object[n] of Python integers."""

_INT64_MAX: Final = 2**63 - 1


def added(a: Integers, b: Integers) -> Integers:
    """a + b."""
    return _with_room(operator.add, a, b, _peak(a) + _peak(b))


def subtracted(a: Integers, b: Integers) -> Integers:
    """a - b."""
    return _with_room(operator.sub, a, b, _peak(a) + _peak(b))


def multiplied(a: Integers, b: Integers) -> Integers:
    """a * b."""
    return _with_room(operator.mul, a, b, _peak(a) * _peak(b))


def negated(a: Integers) -> Integers:
    """-a. The smallest int64 has no int64 as its negation."""
    return -_integers(a, _peak(a))


def absolute(a: Integers) -> Integers:
    """The absolute values."""
    return np.asarray(np.abs(_integers(a, _peak(a))))


def rescaled(a: Integers, places: int) -> Integers:
    """a with `places` more digits after the point: a * 10**places. The same array for no or a negative number of
    places."""
    if places <= 0:
        return a
    factor = int(10**places)
    return np.asarray(_integers(a, max(_peak(a), 1) * factor) * factor)


def divided_half_even(a: Integers, b: Integers) -> Integers:
    """a / b, rounded half to even. No b is 0."""
    peak = max(_peak(a), 2 * _peak(b))
    a, b = _integers(a, peak), _integers(b, peak)
    if _has_negative(b):
        below = b < 0
        a, b = np.where(below, -a, a), np.where(below, -b, b)
    quotient = a // b
    rest = 2 * (a - quotient * b)
    # A half goes up from an odd quotient only.
    up = rest + (quotient & 1) > b
    return np.asarray(quotient + up)


def compare_scaled(a: Integers, a_scale: int, sign: str, b: Integers, b_scale: int) -> Mask:
    """Compare unscaled values of two scales."""
    if a_scale != b_scale:
        a, b = rescaled(a, b_scale - a_scale), rescaled(b, a_scale - b_scale)
    return COMPARE[sign](a, b)


def constant(number: int) -> Integers:
    """One integer as an array."""
    return np.array([number], dtype=np.int64 if -_INT64_MAX <= number <= _INT64_MAX else object)


def as_int64(a: Integers) -> tuple[NDArray[np.int64], Mask | None]:
    """The values as int64[n], and which of them fit (None: all); 0 for the others."""
    if a.dtype != object:
        return a, None
    fits = np.fromiter((-_INT64_MAX - 1 <= value <= _INT64_MAX for value in a), dtype=np.bool_, count=len(a))
    return np.where(fits, a, 0).astype(np.int64), fits


def unscaled_text(unscaled: int, scale: int) -> str:
    """The decimal unscaled * 10**-scale without exponent and trailing zeros."""
    if scale == 0:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}".rstrip("0").rstrip(".")
    return f"-{text}" if unscaled < 0 else text


def _with_room(combine: Callable[[Any, Any], Any], a: Integers, b: Integers, peak: int) -> Integers:
    return np.asarray(combine(_integers(a, peak), _integers(b, peak)))


def _integers(a: Integers, peak: int) -> Integers:
    """The array as Python integers if a result of the size `peak` does not fit an int64."""
    return a if peak <= _INT64_MAX or a.dtype == object else a.astype(object)


def _peak(a: Integers) -> int:
    """The largest absolute value."""
    return max(-int(a.min()), int(a.max())) if len(a) else 0


def _has_negative(a: Integers) -> bool:
    return bool(len(a)) and bool(a.min() < 0)

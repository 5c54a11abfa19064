"""Wide exact arithmetic for AVG and STDDEV comparisons: magnitudes as 32-bit limbs, lowest first, in uint64 arrays.

Doubles decide whenever they can (the error of the estimate is bounded); these loops run only near the limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.window.compiler import allocating

Limbs = NDArray[np.uint64]

_MASK = np.uint64(0xFFFF_FFFF)
_SHIFT = np.uint64(32)
WIDE = 40
"""Limbs of an intermediate result: 1,280 bits hold n**2 * limit**2 of the widest accepted limit."""


@allocating
def multiply(a: Limbs, b: Limbs) -> Limbs:
    """a * b, cut at WIDE limbs (callers stay below)."""
    out = np.zeros(WIDE, dtype=np.uint64)
    for i in range(a.shape[0]):
        if a[i] == np.uint64(0):
            continue
        carry = np.uint64(0)
        for j in range(b.shape[0]):
            if i + j >= WIDE:
                break
            cell = out[i + j] + a[i] * b[j] + carry
            out[i + j] = cell & _MASK
            carry = cell >> _SHIFT
        if i + b.shape[0] < WIDE:
            out[i + b.shape[0]] += carry
    return out


@allocating
def subtract(a: Limbs, b: Limbs) -> Limbs:
    """a - b for a >= b."""
    out = np.zeros(WIDE, dtype=np.uint64)
    borrow = np.uint64(0)
    for i in range(WIDE):
        take = b[i] + borrow
        if a[i] >= take:
            out[i] = a[i] - take
            borrow = np.uint64(0)
        else:
            out[i] = a[i] + (np.uint64(1) << _SHIFT) - take
            borrow = np.uint64(1)
    return out


@allocating
def compare(a: Limbs, b: Limbs) -> int:
    """-1, 0 or 1."""
    for k in range(WIDE):
        i = WIDE - 1 - k
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0


@allocating
def from_int(value: int) -> Limbs:
    """A non-negative int64."""
    out = np.zeros(2, dtype=np.uint64)
    out[0] = np.uint64(value & 0xFFFF_FFFF)
    out[1] = np.uint64(value >> 32)
    return out


@allocating
def from_sum(high: int, low: int) -> Limbs:
    """The magnitude of (high << 32) + low, for 0 <= low < 2**32."""
    out = np.zeros(3, dtype=np.uint64)
    if high < 0:
        high = -high
        if low != 0:
            high -= 1
            low = (1 << 32) - low
    out[0] = np.uint64(low)
    out[1] = np.uint64(high & 0xFFFF_FFFF)
    out[2] = np.uint64(high >> 32)
    return out


@allocating
def from_limb_sums(s0: int, s1: int, s2: int, s3: int) -> Limbs:
    """A sum of squares from the sums of its limbs, each a non-negative int64."""
    out = np.zeros(WIDE, dtype=np.uint64)
    carry = np.uint64(0)
    sums = (s0, s1, s2, s3)
    for i in range(4):
        # Halves keep the additions below 2**64.
        value = np.uint64(sums[i])
        cell = (value & _MASK) + (carry & _MASK)
        out[i] = cell & _MASK
        carry = (value >> _SHIFT) + (carry >> _SHIFT) + (cell >> _SHIFT)
    out[4] = carry & _MASK
    out[5] = carry >> _SHIFT
    return out


@allocating
def sign_of_average(high: int, low: int, n: int, scale: Limbs, limit: Limbs, limit_negative: int) -> int:
    """The sign of sum * scale - limit * n, exact."""
    left = multiply(from_sum(high, low), scale)
    right = multiply(limit, from_int(n))
    left_negative = high < 0
    zero = np.zeros(WIDE, dtype=np.uint64)
    if compare(left, zero) == 0:
        left_negative = False
    right_negative = limit_negative != 0
    if left_negative != right_negative:
        return -1 if left_negative else 1
    order = compare(left, right)
    return -order if left_negative else order


@allocating
def sign_of_deviation(
    high: int, low: int, s0: int, s1: int, s2: int, s3: int, n: int, scale: Limbs, limit: Limbs
) -> int:
    """The sign of (n * sum(v**2) - sum(v)**2) * scale**2 - limit**2 * n**2, exact, for limit >= 0."""
    total = from_sum(high, low)
    spread = subtract(multiply(from_int(n), from_limb_sums(s0, s1, s2, s3)), multiply(total, total))
    left = multiply(multiply(spread, scale), scale)
    count = from_int(n)
    right = multiply(multiply(multiply(limit, limit), count), count)
    return compare(left, right)

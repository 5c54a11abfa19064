"""Wide exact arithmetic for AVG and STDDEV comparisons: magnitudes as 32-bit limbs, lowest first, in uint64 vectors.

Doubles decide most comparisons, because the error of the estimate is bounded. These loops run only near the limit. They
use the rows of the caller's scratch array [SCRATCH_ROWS, WIDE].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.compiler import compiled

Limbs = NDArray[np.uint64]

WIDE = 40
"""The limbs of a scratch row: 1,280 bits hold n**2 * limit**2 of the widest accepted limit."""
SCRATCH_ROWS = 5

_MASK = np.uint64(0xFFFF_FFFF)
_SHIFT = np.uint64(32)


@compiled
def multiply(out: Limbs, a: Limbs, b: Limbs) -> None:
    """out = a * b, cut at WIDE limbs (callers stay below). `out` must not be `a` or `b`."""
    out[:] = np.uint64(0)
    for i in range(a.shape[0]):
        if a[i] == np.uint64(0):
            continue
        carry = np.uint64(0)
        for j in range(min(b.shape[0], WIDE - i)):
            cell = out[i + j] + a[i] * b[j] + carry
            out[i + j] = cell & _MASK
            carry = cell >> _SHIFT
        if i + b.shape[0] < WIDE:
            out[i + b.shape[0]] += carry


@compiled
def subtract(out: Limbs, a: Limbs, b: Limbs) -> None:
    """out = a - b. Requires a >= b."""
    borrow = np.uint64(0)
    for i in range(WIDE):
        take = b[i] + borrow
        if a[i] >= take:
            out[i] = a[i] - take
            borrow = np.uint64(0)
        else:
            out[i] = a[i] + (np.uint64(1) << _SHIFT) - take
            borrow = np.uint64(1)


@compiled
def compare(a: Limbs, b: Limbs) -> int:
    """Compare two magnitudes: -1, 0 or 1 for a < b, a == b or a > b."""
    for k in range(WIDE):
        i = WIDE - 1 - k
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0


@compiled
def set_int(out: Limbs, value: int) -> None:
    """out = value, for a non-negative int64."""
    out[:] = np.uint64(0)
    out[0] = np.uint64(value & 0xFFFF_FFFF)
    out[1] = np.uint64(value >> 32)


@compiled
def set_sum(out: Limbs, high: int, low: int) -> None:
    """out = the magnitude of (high << 32) + low, for 0 <= low < 2**32."""
    out[:] = np.uint64(0)
    if high < 0:
        high = -high
        if low != 0:
            high -= 1
            low = (1 << 32) - low
    out[0] = np.uint64(low)
    out[1] = np.uint64(high & 0xFFFF_FFFF)
    out[2] = np.uint64(high >> 32)


@compiled
def set_limb_sums(out: Limbs, s0: int, s1: int, s2: int, s3: int) -> None:
    """out = a sum of squares from the sums of its limbs, each a non-negative int64."""
    out[:] = np.uint64(0)
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


@compiled
def sign_of_average(
    scratch: Limbs, high: int, low: int, n: int, scale: Limbs, limit: Limbs, limit_negative: int
) -> int:
    """The sign of sum * scale - limit * n, exact."""
    total, count, left, right = scratch[0], scratch[1], scratch[2], scratch[3]
    set_sum(total, high, low)
    set_int(count, n)
    multiply(left, total, scale)
    multiply(right, limit, count)
    left_negative = high < 0
    right_negative = limit_negative != 0
    if left_negative != right_negative:
        return -1 if left_negative else 1
    order = compare(left, right)
    return -order if left_negative else order


@compiled
def sign_of_deviation(
    scratch: Limbs, high: int, low: int, s0: int, s1: int, s2: int, s3: int, n: int, scale: Limbs, limit: Limbs
) -> int:
    """The sign of (n * sum(v**2) - sum(v)**2) * scale**2 - limit**2 * n**2, exact, for limit >= 0."""
    a, b, c, d, count = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    set_int(count, n)
    set_limb_sums(a, s0, s1, s2, s3)
    multiply(b, a, count)
    set_sum(a, high, low)
    multiply(c, a, a)
    subtract(d, b, c)
    multiply(a, d, scale)
    multiply(b, a, scale)
    multiply(a, limit, limit)
    multiply(c, a, count)
    multiply(d, c, count)
    return compare(b, d)

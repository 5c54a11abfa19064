"""Wide exact arithmetic for AVG and STDDEV comparisons: magnitudes as 32-bit limbs, lowest first, in uint64 vectors.

Doubles decide most comparisons, because the error of the estimate is bounded. These loops run only near the limit. They
use the rows of the caller's scratch array [SCRATCH_ROWS, WIDE].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.compiler import compiled, inlined

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


@compiled
def sign_of_ratio(
    scratch: Limbs,
    high: int,
    low: int,
    n: int,
    base_high: int,
    base_low: int,
    m: int,
    scale: Limbs,
    limit: Limbs,
    limit_negative: int,
) -> int:
    """The sign of a * m * scale - b * n * limit, exact."""
    count, a, b, left, right = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    set_sum(a, high, low)
    set_int(count, m)
    multiply(b, a, count)
    multiply(left, b, scale)
    set_sum(a, base_high, base_low)
    set_int(count, n)
    multiply(b, a, count)
    multiply(right, b, limit)
    left_sign = _sign(left, high < 0)
    right_sign = _sign(right, (base_high < 0) != (limit_negative != 0))
    if left_sign != right_sign:
        return 1 if left_sign > right_sign else -1
    order = compare(left, right)
    return -order if left_sign < 0 else order


@inlined
def _copy(out: Limbs, a: Limbs) -> None:
    for k in range(WIDE):
        out[k] = a[k]


@inlined
def _sign(magnitude: Limbs, negative: bool) -> int:
    """The sign of a number: 0 for a magnitude of 0."""
    for k in range(WIDE):
        if magnitude[k] != np.uint64(0):
            return -1 if negative else 1
    return 0


@compiled
def _difference(scratch: Limbs, out: int, x: int, y: int, x_negative: bool, y_negative: bool) -> int:
    """scratch[out] = |x - y| for the magnitudes in rows x and y with these signs. Returns the sign of x - y."""
    a, b, d = scratch[x], scratch[y], scratch[out]
    if x_negative != y_negative:
        carry = np.uint64(0)
        for k in range(WIDE):
            cell = a[k] + b[k] + carry
            d[k] = cell & _MASK
            carry = cell >> _SHIFT
        return _sign(d, x_negative)
    order = compare(a, b)
    if order >= 0:
        subtract(d, a, b)
    else:
        subtract(d, b, a)
    return -order if x_negative else order


@compiled
def sign_of_excess(
    scratch: Limbs,
    upper: int,
    high: int,
    low: int,
    n: int,
    own_scale: int,
    base_high: int,
    base_low: int,
    m: int,
    base_scale: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
    scale: Limbs,
    limit: Limbs,
) -> int:
    """The sign of d * scale - limit * n * base_scale * sqrt(v), exact, or with a plus instead of the minus unless
    `upper`. d = a * m * own_scale - b * n * base_scale, v = m * sum(x**2) - b**2, and limit >= 0."""
    x, y, z = scratch[0], scratch[1], scratch[2]
    set_sum(x, high, low)
    set_int(y, m)
    multiply(z, x, y)
    set_int(y, own_scale)
    multiply(x, z, y)
    _copy(scratch[3], x)
    set_sum(x, base_high, base_low)
    set_int(y, n)
    multiply(z, x, y)
    set_int(y, base_scale)
    multiply(x, z, y)
    _copy(scratch[4], x)
    sign = _difference(scratch, 0, 3, 4, high < 0, base_high < 0)
    if upper != 0 and sign < 0:
        return -1
    if upper == 0 and sign > 0:
        return 1
    multiply(y, x, scale)
    _copy(z, y)
    multiply(scratch[3], y, z)  # (d * scale)**2
    set_sum(x, base_high, base_low)
    _copy(y, x)
    multiply(z, x, y)
    set_limb_sums(x, s0, s1, s2, s3)
    set_int(y, m)
    multiply(scratch[4], x, y)
    subtract(x, scratch[4], z)  # v
    set_int(y, base_scale)
    multiply(z, y, limit)
    set_int(y, n)
    multiply(scratch[4], z, y)  # limit * n * base_scale
    multiply(y, scratch[4], x)
    multiply(z, y, scratch[4])
    order = compare(scratch[3], z)
    return order if upper != 0 else -order

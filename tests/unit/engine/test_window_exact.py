"""The wide arithmetic behind AVG and STDDEV, against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from fraud_rules.engine.window.evaluation.exact import SCRATCH_ROWS, WIDE, sign_of_average, sign_of_deviation
from fraud_rules.engine.window.layout import LIMBS

SCRATCH = np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)
INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
DIGITS_38 = st.integers(0, 10**38)
POWERS = st.integers(0, 38).map(lambda exponent: 10**exponent)


def limbs(value: int) -> np.ndarray:
    return np.array([(value >> (32 * k)) & 0xFFFF_FFFF for k in range(LIMBS)], dtype=np.uint64)


def sign(value: int) -> int:
    return (value > 0) - (value < 0)


@given(values=st.lists(INT64, min_size=1, max_size=20), scale=POWERS, limit=DIGITS_38, negative=st.booleans())
@example(values=[10, 20], scale=1, limit=15, negative=False)
@example(values=[-10, -20], scale=1, limit=15, negative=True)
@example(values=[-1, 1], scale=1, limit=0, negative=False)
@example(values=[-(2**32)], scale=1, limit=2**32, negative=True)
def test_average_compares_exactly(values: list[int], scale: int, limit: int, negative: bool) -> None:
    total, n = sum(values), len(values)
    negative = negative and limit > 0
    got = sign_of_average(SCRATCH, total >> 32, total & 0xFFFF_FFFF, n, limbs(scale), limbs(limit), int(negative))
    assert got == sign(total * scale - (-limit if negative else limit) * n)


@given(values=st.lists(INT64, min_size=1, max_size=20), scale=POWERS, limit=DIGITS_38)
@example(values=[7, 7, 7], scale=1, limit=0)
@example(values=[1, 3], scale=1, limit=1)
@example(values=[999_999_999_999_999_998, 999_999_999_999_999_999], scale=10, limit=5)
def test_deviation_compares_exactly(values: list[int], scale: int, limit: int) -> None:
    total, n = sum(values), len(values)
    sums = [sum((value * value >> (32 * k)) & 0xFFFF_FFFF for value in values) for k in range(4)]
    got = sign_of_deviation(SCRATCH, total >> 32, total & 0xFFFF_FFFF, *sums, n, limbs(scale), limbs(limit))
    spread = n * sum(value * value for value in values) - total * total
    assert got == sign(spread * scale**2 - limit**2 * n**2)

"""The exact comparisons of a baseline against fractions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from fraud_rules.engine.window.evaluation.exact import SCRATCH_ROWS, WIDE, sign_of_excess, sign_of_ratio
from fraud_rules.engine.window.layout import LIMBS

VALUES = [0, 1, -1, 3, 10, -250, 2**31, -(2**31), 2**63 - 1, -(2**63), 5 * 2**70 + 1, -(5 * 2**70) - 1]
FACTORS = [Fraction(0), Fraction(1), Fraction(5, 2), Fraction(1, 3), Fraction(10**38), Fraction(1, 10**38)]


def limbs(value: int) -> np.ndarray:
    return np.array([(value >> (32 * k)) & 0xFFFF_FFFF for k in range(LIMBS)], dtype=np.uint64)


def split(value: int) -> tuple[int, int]:
    return value >> 32, value & 0xFFFF_FFFF


def scratch() -> np.ndarray:
    return np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)


def sign(value: Fraction | int) -> int:
    return (value > 0) - (value < 0)


@pytest.mark.parametrize("negative", [False, True])
def test_the_ratio_has_the_sign_of_the_fractions(negative: bool) -> None:
    rng = random.Random(7)
    for _ in range(3_000):
        a, b, factor = rng.choice(VALUES), rng.choice(VALUES), rng.choice(FACTORS)
        n, m = rng.choice([1, 2, 7, 2**29]), rng.choice([1, 3, 2**29])
        signed = -factor if negative else factor
        found = sign_of_ratio(
            scratch(), *split(a), n, *split(b), m, limbs(factor.denominator), limbs(factor.numerator), int(signed < 0)
        )
        assert found == sign(Fraction(a, n) - signed * Fraction(b, m)), (a, n, b, m, signed)


def samples() -> Iterator[tuple[list[int], int]]:
    """Pasts, and aggregates at, just below and just above each whole number of deviations."""
    rng = random.Random(11)
    for _ in range(400):
        past = [rng.choice([0, 1, 2, 3, 10, -4, 2**40, -(2**62)]) for _ in range(rng.randint(1, 6))]
        yield past, rng.choice([*past, rng.choice(past) + 1, rng.choice(past) - 1, 20])
    for deviations in range(4):
        for nudge in (-1, 0, 1):
            yield [10, 30], 20 + 10 * deviations + nudge
            yield [10, 30], 20 - 10 * deviations + nudge


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize(("own_scale", "base_scale"), [(1, 1), (100, 1), (1, 10**18)])
def test_the_excess_has_the_sign_of_the_fractions(upper: bool, own_scale: int, base_scale: int) -> None:
    rng = random.Random(13)
    for past, aggregate in samples():
        limit, n, m = rng.choice([*FACTORS, Fraction(2), Fraction(3)]), rng.choice([1, 1, 3]), len(past)
        total, squares = sum(past), sum(value * value for value in past)
        words = [(squares >> (32 * k)) & 0xFFFF_FFFF for k in range(3)]
        found = sign_of_excess(
            scratch(), int(upper), *split(aggregate), n, own_scale, *split(total), m, base_scale,
            *words, squares >> 96, limbs(limit.denominator), limbs(limit.numerator),
        )  # fmt: skip
        excess = Fraction(aggregate * own_scale, n) - Fraction(total * base_scale, m)
        spread = limit * limit * Fraction(m * squares - total * total, m * m) * base_scale**2
        toward = excess if upper else -excess
        expected = sign(toward * toward - spread) if toward >= 0 else -1
        assert found == (expected if upper else -expected), (past, aggregate, limit, n)

"""Distances against the arc cosine in 80 digits, and near half a metre."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fraud_rules.model.expressions import great_circle
from fraud_rules.model.expressions.great_circle import RADIUS_M, distance_m

DIGITS = 80
Point = tuple[int, int]  # micro-degrees


def sine(angle: Decimal) -> Decimal:
    total = term = angle
    for power in range(3, 200, 2):
        term = -term * angle * angle / (power * (power - 1))
        total += term
    return total


def exact_m(a: Point, b: Point) -> Decimal:
    """The distance in metres to 40 digits or more: bisection for the half angle whose squared sine is the haversine."""
    with localcontext() as context:
        context.prec = DIGITS
        radians = pi() / 180_000_000
        sine_of_latitude = sine(Decimal(b[0] - a[0]) * radians / 2)
        cosines = sine(pi() / 2 - a[0] * radians) * sine(pi() / 2 - b[0] * radians)
        haversine = sine_of_latitude**2 + cosines * sine(Decimal(b[1] - a[1]) * radians / 2) ** 2
        low, high = Decimal(0), pi() / 2
        for _ in range(160):
            middle = (low + high) / 2
            low, high = (middle, high) if sine(middle) ** 2 < haversine else (low, middle)
        return 2 * low * Decimal(RADIUS_M)


def pi() -> Decimal:
    """Machin's formula."""

    def inverse_tangent(of: int) -> Decimal:
        return sum((Decimal((-1) ** k) / ((2 * k + 1) * Decimal(of) ** (2 * k + 1)) for k in range(60)), Decimal(0))

    return 4 * (4 * inverse_tangent(5) - inverse_tangent(239))


def metres(a: Point, b: Point) -> int:
    columns = [(np.array([part], dtype=np.int64), 6) for part in (*a, *b)]
    return int(distance_m(*columns)[0])


POINTS = st.tuples(st.integers(-90_000_000, 90_000_000), st.integers(-180_000_000, 180_000_000))


@settings(max_examples=15)
@given(POINTS, POINTS)
def test_a_distance_is_the_mathematical_one_rounded(a: Point, b: Point) -> None:
    assert metres(a, b) == int(exact_m(a, b).quantize(Decimal(1), ROUND_HALF_EVEN))


@settings(max_examples=15)
@given(POINTS, st.integers(0, 20_000_000), st.booleans())
def test_floats_near_half_a_metre_do_not_decide(a: Point, whole_m: int, north: bool) -> None:
    """Two neighbours on the circle through the poles, in steps of 1e-18 degrees, between which half a metre lies."""
    scale = 18
    per_degree = Decimal(RADIUS_M) * pi() / 180
    with localcontext() as context:
        context.prec = DIGITS
        steps = int((Decimal(whole_m) + Decimal("0.5")) / per_degree * 10**scale)
    sign = 1 if north else -1
    start = -sign * 90 * 10**scale
    zero = (np.zeros(2, dtype=np.int64), 0)
    ends = np.array([start + sign * steps, start + sign * (steps + 1)], dtype=object)
    found = distance_m((np.array([start] * 2, dtype=object), scale), zero, (ends, scale), zero)
    assert found.tolist() == [whole_m, whole_m + 1]


def test_close_to_half_a_metre_more_digits_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another tolerance, each row is decided with more digits. They agree with the floats."""
    rng = np.random.default_rng(7)
    columns = [(rng.integers(-bound, bound, 300), 6) for bound in (90_000_000, 180_000_000) * 2]
    by_floats = distance_m(*columns).tolist()
    monkeypatch.setattr(great_circle, "_CLOSE_M", math.inf)
    assert distance_m(*columns).tolist() == by_floats

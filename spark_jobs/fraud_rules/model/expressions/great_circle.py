"""Distances on a sphere in whole metres: the mathematical value, rounded to the nearest metre.

Floats suffice for nearly all rows. The angle between two points is the arc tangent of two quantities of size 1, which
is well-conditioned at every distance. A longitude in radians has an error of at most 2e-15 (five roundings of a number
up to pi), a latitude half of that. Each sine, cosine and arc tangent adds at most 4 units in the last place, and each
of ten products and sums one rounding. All errors together stay below 1e-13 in the angle, and below 1e-6 m in the
distance: a tenth of `_CLOSE_M`. Rows that are closer than `_CLOSE_M` to half a metre are decided with 60 digits. A
distance is never exactly half a metre: the sine of a rational angle in radians is transcendental, those of rational
degrees are algebraic.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.expressions.columnwise import Mask
from fraud_rules.model.expressions.unscaled import Integers

RADIUS_M: Final = "6371008.8"

_RADIUS_M: Final = float(RADIUS_M)
_CLOSE_M: Final = 1e-5
_PRECISION: Final = 60
_PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")

Degrees = tuple[Integers, int]
"""Unscaled degrees, and their scale."""


def is_within(degrees: Degrees, bound: int) -> Mask:
    """Which degrees are from -bound to bound."""
    values, scale = degrees
    unscaled = bound * int(10**scale)
    within = (values >= -unscaled) & (values <= unscaled)
    return within.astype(np.bool_, copy=False)


def distance_m(latitude: Degrees, longitude: Degrees, latitude2: Degrees, longitude2: Degrees) -> NDArray[np.int64]:
    """The great-circle distances in metres: int64[n], or of one row. Latitudes are within 90 degrees, longitudes within
    180."""
    metres = _as_floats(*map(_radians, (latitude, longitude, latitude2, longitude2)))
    whole = np.floor(metres)
    rounded = (whole + (metres - whole > 0.5)).astype(np.int64)
    for row in np.flatnonzero(np.abs(metres - whole - 0.5) < _CLOSE_M).tolist():
        points = [_degrees_at(each, row) for each in (latitude, longitude, latitude2, longitude2)]
        rounded[row] = int(whole[row]) + _is_farther(points, Fraction(int(whole[row])) + Fraction(1, 2))
    return rounded


def _as_floats(
    a: NDArray[np.float64], a_long: NDArray[np.float64], b: NDArray[np.float64], b_long: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Vincenty's formula for a sphere, from radians."""
    sin_a, cos_a, sin_b, cos_b = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
    between = b_long - a_long
    across, along = np.sin(between), np.cos(between)
    side = np.hypot(cos_b * across, cos_a * sin_b - sin_a * cos_b * along)
    return np.asarray(_RADIUS_M * np.arctan2(side, sin_a * sin_b + cos_a * cos_b * along))


def _radians(degrees: Degrees) -> NDArray[np.float64]:
    values, scale = degrees
    return np.asarray(values.astype(np.float64) / float(10**scale) * (np.pi / 180))


def _degrees_at(degrees: Degrees, row: int) -> Fraction:
    values, scale = degrees
    return Fraction(int(values[row if len(values) > 1 else 0]), int(10**scale))


def _is_farther(points: list[Fraction], metres: Fraction) -> bool:
    """Whether the distance is more than `metres`: compares the haversine of both angles, which grows with the angle."""
    with localcontext(Context(prec=_PRECISION)):
        a, a_long, b, b_long = points
        half_angle = _decimal(metres / Fraction(RADIUS_M) / 2)
        haversine = (
            _sine(_half_radians(b - a)) ** 2 + _cosine(a) * _cosine(b) * _sine(_half_radians(b_long - a_long)) ** 2
        )
        return haversine > _sine(half_angle) ** 2


def _half_radians(degrees: Fraction) -> Decimal:
    return _decimal(degrees / 360) * _PI


def _cosine(degrees: Fraction) -> Decimal:
    return _sine(_decimal((90 - degrees) / 180) * _PI)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _sine(angle: Decimal) -> Decimal:
    """The Taylor series, for angles up to 4."""
    term = total = angle
    square, power = angle * angle, 1
    while term and term.adjusted() > -_PRECISION - 5:
        power += 2
        term = -term * square / (power * (power - 1))
        total += term
    return total

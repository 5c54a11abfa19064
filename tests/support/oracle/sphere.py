"""The great-circle distance to 80 digits, so that rounding to whole metres is beyond doubt."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache

PRECISION = 80
RADIUS_M = Decimal("6371008.8")
_NEGLIGIBLE = Decimal(10) ** -(PRECISION + 5)


def distance_m(latitude: Fraction, longitude: Fraction, latitude_2: Fraction, longitude_2: Fraction) -> Fraction | None:
    """The whole metres between two places in degrees (haversine formula); None beyond the poles or the date line."""
    if max(abs(latitude), abs(latitude_2)) > 90 or max(abs(longitude), abs(longitude_2)) > 180:
        return None
    with localcontext(prec=PRECISION):
        north = _sin(_radians((latitude_2 - latitude) / 2)) ** 2
        east = _sin(_radians((longitude_2 - longitude) / 2)) ** 2
        chord = north + _cos(_radians(latitude)) * _cos(_radians(latitude_2)) * east
        rest = max(1 - chord, Decimal(0))  # beyond zero only by the rounding of the last digit
        metres = 2 * RADIUS_M * _angle(chord.sqrt(), rest.sqrt())
        return Fraction(metres.to_integral_value(ROUND_HALF_EVEN))


def _radians(degrees: Fraction) -> Decimal:
    return Decimal(degrees.numerator) / degrees.denominator * _pi() / 180


@cache
def _pi() -> Decimal:
    with localcontext(prec=PRECISION + 10):
        return 4 * _arctan(Decimal(1))


def _sin(angle: Decimal) -> Decimal:
    return _alternating(angle, angle, 1)


def _cos(angle: Decimal) -> Decimal:
    return _alternating(Decimal(1), angle, 0)


def _alternating(term: Decimal, angle: Decimal, power: int) -> Decimal:
    """The Taylor series of sine (from power 1) and cosine (from power 0)."""
    total = term
    while abs(term) > _NEGLIGIBLE:
        term *= -angle * angle / ((power + 1) * (power + 2))
        power += 2
        total += term
    return total


def _angle(opposite: Decimal, adjacent: Decimal) -> Decimal:
    """The angle from 0 to a right one of a triangle with these legs."""
    if opposite <= adjacent:
        return _arctan(opposite / adjacent)
    return _pi() / 2 - _arctan(adjacent / opposite)


def _arctan(slope: Decimal) -> Decimal:
    """The angle of a slope from 0 to 1: halved four times, then by its series."""
    for _ in range(4):
        slope /= 1 + (1 + slope * slope).sqrt()
    total, power, place = slope, slope, 1
    while abs(power) > _NEGLIGIBLE:
        power *= -slope * slope
        place += 2
        total += power / place
    return total * 16

"""Local clocks, the starts of calendar windows, and distances."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_MS = 4_102_444_800_000  # the year 2100


def epoch_ms(text: str) -> int:
    """The time that a text literal writes; without a zone in UTC."""
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


@cache
def _zone(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, name)


def clock(name: str, at_ms: int, zone: str) -> Fraction | None:
    """What a local clock shows; None outside the years 1970 to 2099."""
    if not 0 <= at_ms < _END_MS:
        return None
    at = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(_zone(zone))
    whole = {"minute_of_day": at.hour * 60 + at.minute, "weekday": at.isoweekday()}.get(name)
    return Fraction(getattr(at, name) if whole is None else whole)


def calendar_start_ms(calendar: str, zone: str, at_ms: int) -> int | None:
    """The earliest instant from which all instants up to `at_ms` are in its local day, week or month."""
    if not 0 <= at_ms < _END_MS:
        return None

    def state(ms: int) -> tuple[object, object]:
        at = (_EPOCH + timedelta(milliseconds=ms)).astimezone(_zone(zone))
        days = {"DAY": 0, "WEEK": at.weekday(), "MONTH": at.day - 1}[calendar]
        return at.date() - timedelta(days=days), at.utcoffset()

    while True:
        for step_ms in (3_600_000, 60_000, 1_000, 1):
            while state(at_ms - step_ms) == state(at_ms):  # the clock does not change in between
                at_ms -= step_ms
        if state(at_ms - 1)[0] != state(at_ms)[0]:
            return at_ms
        at_ms -= 1


def distance_m(*degrees: Fraction) -> Fraction | None:
    """The whole metres between two places (haversine formula, 60 digits); None beyond the poles or the date line."""
    if max(abs(degrees[0]), abs(degrees[2])) > 90 or max(abs(degrees[1]), abs(degrees[3])) > 180:
        return None
    with localcontext(prec=60):
        quarter = 3 * _arcsine(Decimal("0.5"))
        a, b, c, d = (Decimal(each.numerator) / each.denominator * quarter / 90 for each in degrees)
        chord = _sine((c - a) / 2) ** 2 + _sine(a + quarter) * _sine(c + quarter) * _sine((d - b) / 2) ** 2
        sine, cosine = chord.sqrt(), max(1 - chord, Decimal(0)).sqrt()
        half = _arcsine(sine) if sine < cosine else quarter - _arcsine(cosine)
        return Fraction(round(2 * Decimal("6371008.8") * half))


def _sine(angle: Decimal) -> Decimal:
    term, total, power = angle, angle, 1
    while abs(term) > Decimal("1e-65"):
        power += 2
        term *= -angle * angle / (power * (power - 1))
        total += term
    return total


def _arcsine(sine: Decimal) -> Decimal:
    angle = Decimal(math.asin(sine))
    for _ in range(3):  # Newton's steps double the digits
        angle += (sine - _sine(angle)) / (1 - sine * sine).sqrt()
    return angle

"""Places of generated payments, in millionths of a degree. Pure.

Each payer has a home in a city, and pays within 20 km of it. The cities are at least 300 km apart.
"""

from __future__ import annotations

from typing import Final

PLACE_FIELDS: Final = tuple(
    {
        "name": name,
        "type": "decimal",
        "precision": 9,
        "scale": 6,
        "nullable": True,
        "label": name.capitalize(),
        "description": f"The {name} of the place of the payment.",
        "unit": "degrees",
        "measure": False,
    }
    for name in ("latitude", "longitude")
)
"""The fields of a place, as a schema file declares them."""

_CITIES: Final = (
    (52_520_000, 13_405_000),
    (48_857_000, 2_352_000),
    (40_417_000, -3_704_000),
    (41_893_000, 12_483_000),
    (52_230_000, 21_011_000),
    (37_984_000, 23_728_000),
    (59_329_000, 18_069_000),
    (53_350_000, -6_260_000),
)
_HOME_SPREAD: Final = 60_000
_SPREAD: Final = 30_000

Place = tuple[int, int]
"""Latitude and longitude in millionths of a degree."""


def place_near_home(payer: int, payment: int) -> Place:
    """The place of an ordinary payment."""
    return _spread(_home(payer), payment, _SPREAD)


def place_away(payer: int, payment: int) -> Place:
    """A place in another city than the payer's."""
    return _spread(_home(payer + 1), payment, _SPREAD)


def _home(payer: int) -> Place:
    return _spread(_CITIES[payer % len(_CITIES)], payer // len(_CITIES), _HOME_SPREAD)


def _spread(center: Place, number: int, most: int) -> Place:
    """A place up to `most` from a centre in each direction, always the same for a number."""
    latitude, longitude = center
    width = 2 * most + 1
    return latitude + number * 7_919 % width - most, longitude + number * 104_729 % width - most

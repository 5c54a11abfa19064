"""The values of a tree that JSON does not have, and their exact conversion.

A timestamp becomes an `EpochMs`. A decimal becomes a Decimal without rounding. A binary float has no exact decimal: it
becomes the shortest Decimal that stands for the same float, so 12.34 stays 12.34 in 64 and in 32 bits. NaN and the
infinities become the Decimals of the same name, which fit no field.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Final, TypeAlias
from uuid import UUID

import numpy as np

Conversion: TypeAlias = Callable[[object], object]

MAX_DIGITS: Final = 1_000
"""The largest precision of a decimal type. A larger one would make the text of each value long."""

_EXACT: Final = Context(prec=2 * MAX_DIGITS)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time has no zone


class EpochMs(int):
    """A time in epoch ms whose unit its own type declares, rounded down, so that a time never moves into its future."""

    __slots__ = ()


def epoch_ms_from_units(units_per_ms: int) -> Conversion:
    """A conversion from a whole number of units since the epoch."""
    if units_per_ms == 1:
        return EpochMs  # type: ignore[return-value]
    return lambda value: EpochMs(value // units_per_ms)  # type: ignore[operator]


def decimal_from_bytes(precision: int, scale: int) -> Conversion:
    """A conversion from the unscaled number as big-endian bytes. It raises ValueError for more digits than declared."""
    limit = 10**precision

    def convert(value: object) -> Decimal:
        unscaled = int.from_bytes(value, "big", signed=True)  # type: ignore[arg-type]
        if not -limit < unscaled < limit:
            raise ValueError(f"a decimal has more than {precision} digits")
        return Decimal(unscaled).scaleb(-scale, _EXACT)

    return convert


def decimal_from_float64(value: object) -> Decimal:
    """The shortest decimal that stands for this double."""
    return Decimal(repr(value))


def decimal_from_float32(value: object) -> Decimal:
    """The shortest decimal that stands for this float of 32 bits, which Python holds as a double."""
    return Decimal(str(np.float32(value)))  # type: ignore[arg-type]


def uuid_from_bytes(value: object) -> str:
    """The text of a UUID of 16 bytes."""
    return str(UUID(bytes=value))  # type: ignore[arg-type]


def text_from_date(value: object) -> str:
    """The ISO-8601 text of a number of days since the epoch. Raises OverflowError outside the years 1 to 9999."""
    return str(date(1970, 1, 1) + timedelta(days=value))  # type: ignore[arg-type]


def text_from_local_time(units_per_ms: int) -> Conversion:
    """A conversion from a local time to its ISO-8601 text without an offset, so that the zone of a field applies to it.

    It raises OverflowError outside the years 1 to 9999.
    """
    return lambda value: (_EPOCH + timedelta(milliseconds=value // units_per_ms)).isoformat()  # type: ignore[operator]

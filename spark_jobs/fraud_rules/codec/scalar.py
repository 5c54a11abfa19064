"""Parses exact values: integers, decimals and timestamps.

The parsers never use a float, and their cost does not depend on the size of an exponent.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from fraud_rules.model.declared.field_source import TimeUnit
from fraud_rules.runtime.clock import utc
from fraud_rules.runtime.zones import zone_of

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
TIMESTAMP_MIN_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z."""
TIMESTAMP_MAX_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: ISO-8601 cannot express later times, and 64 bits have room for this time plus a window."""
MAX_TIMESTAMP_LENGTH: Final = 64

_PLAUSIBLE_FROM_MS: Final = 946_684_800_000
_PLAUSIBLE_UNTIL_MS: Final = 4_102_444_800_000
"""The years 2000 to 2099."""

_UNIT_NAMES: Final = {
    TimeUnit.S: "seconds",
    TimeUnit.MS: "milliseconds",
    TimeUnit.US: "microseconds",
    TimeUnit.NS: "nanoseconds",
}

EPOCH_BOUNDS: Final = {
    TimeUnit.S: (TIMESTAMP_MIN_MS // 1_000, TIMESTAMP_MAX_MS // 1_000),
    TimeUnit.MS: (TIMESTAMP_MIN_MS, TIMESTAMP_MAX_MS),
    TimeUnit.US: (TIMESTAMP_MIN_MS * 1_000, TIMESTAMP_MAX_MS * 1_000),
    TimeUnit.NS: (INT64_MIN, INT64_MAX),
}
"""The whole numbers of each unit that certainly are times of the years 1 to 9999. They fit 64 bits."""

_PER_MS: Final = {TimeUnit.S: -3, TimeUnit.MS: 0, TimeUnit.US: 3, TimeUnit.NS: 6}
"""The power of ten that divides a number of this unit to ms."""

_MAX_EPOCH_DIGITS: Final = 64
_MAX_EXPONENT_DIGITS: Final = 9
_EXACT = Context(prec=3 * _MAX_EPOCH_DIGITS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?"
    r"(?:Z|[+-](?:0[0-9]|1[0-8])(?::?[0-5][0-9])?)?"
)


def is_integer(text: str) -> bool:
    """Whether the text is a JSON number without fraction and exponent."""
    return _INTEGER.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether the text is a JSON number."""
    return _NUMBER.fullmatch(text) is not None


def parse_integer(text: str, low: int, high: int) -> int | None:
    """The value of an integer text (see `is_integer`); None if outside `low`..`high`, which must fit 64 bits."""
    value = int(text) if len(text) <= len(str(INT64_MIN)) else None
    return value if value is not None and low <= value <= high else None


def parse_decimal(text: str, precision: int, scale: int) -> int | None:
    """The unscaled value of a number text (see `is_number`) as a decimal(precision, scale); None if it does not fit.

    Exact: `6.000` and `1e3` fit a decimal(18,2), 6.005 does not. The cost is linear in the length of the text, for any
    exponent.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("not a number")
    minus, whole, fraction, exponent_sign, exponent_digits = match.groups(default="")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    exponent_digits = exponent_digits.lstrip("0")
    if len(exponent_digits) > _MAX_EXPONENT_DIGITS:
        return None
    exponent = int(exponent_sign + (exponent_digits or "0"))
    shift = exponent - len(fraction) + len(digits) - len(significant) + scale
    if shift < 0 or len(significant) + shift > precision:
        return None
    value = int(significant + "0" * shift)
    return -value if minus else value


def format_timestamp(epoch_ms: int) -> str:
    """The time in ISO-8601 and UTC, to the second, or to the millisecond if it has a part of a second."""
    return utc(epoch_ms).isoformat(timespec="milliseconds" if epoch_ms % 1_000 else "seconds").replace("+00:00", "Z")


def other_unit(number: int, unit: TimeUnit | None) -> tuple[TimeUnit, int] | None:
    """The unit in which a number is a plausible time although it is none in `unit` (None: ms), and the epoch ms.

    None if there is no such unit.
    """
    for each in _UNIT_NAMES:
        epoch_ms = epoch_ms_of(str(number), each)
        if epoch_ms is not None and _PLAUSIBLE_FROM_MS <= epoch_ms < _PLAUSIBLE_UNTIL_MS:
            return None if each is (unit or TimeUnit.MS) else (each, epoch_ms)
    return None


def unit_hint(number: int, unit: TimeUnit | None, *, exact: bool = True) -> str:
    """The continuation of a message about a number of a field with a unit (None: ms): the unit to declare instead.

    Empty if the number is a plausible time in no other unit. Not `exact`: the number lacks some digits.
    """
    found = other_unit(number, unit)
    return (
        ""
        if found is None
        else f"; {number if exact else 'its number'} looks like {_UNIT_NAMES[found[0]]}: set `unit: {found[0]}`"
    )


def literal_hint(number: int) -> str:
    """The continuation of a message about a number that is no plausible epoch ms: its time in another unit.

    Empty if the number is a plausible time in no other unit.
    """
    found = other_unit(number, TimeUnit.MS)
    if found is None:
        return ""
    return f"; in {_UNIT_NAMES[found[0]]} it is {format_timestamp(found[1])}: write that time, or epoch milliseconds"


def number_of(epoch_ms: int, unit: TimeUnit | None) -> int:
    """The number of a time in a unit (None: ms), without digits below the unit."""
    return int(Decimal(epoch_ms).scaleb(_PER_MS.get(unit or TimeUnit.MS, 0)).to_integral_value(ROUND_FLOOR))


def epoch_ms_of(text: str, unit: TimeUnit) -> int | None:
    """The epoch ms of a number text (see `is_number`) in a unit of time; None outside the years 1 to 9999.

    Digits below a millisecond are cut off, so that a time never moves into its future.
    """
    if len(text) > _MAX_EPOCH_DIGITS:
        return None
    # The digits suffice for each number of such a text, because the exponent is bounded.
    number = Decimal(text)
    if not -_MAX_EPOCH_DIGITS <= number.adjusted() <= _MAX_EPOCH_DIGITS:
        return 0 if number == 0 else None
    epoch_ms = int(number.scaleb(-_PER_MS[unit], _EXACT).to_integral_value(ROUND_FLOOR, _EXACT))
    return epoch_ms if TIMESTAMP_MIN_MS <= epoch_ms <= TIMESTAMP_MAX_MS else None


def parse_timestamp(text: str, zone: str = "") -> int | None:
    """The epoch ms of a date and time; None for any other text.

    The format is ISO-8601 with `T` or a blank between date and time. Seconds and their fraction are optional. The
    offset is `Z`, `+hh:mm`, `+hhmm` or `+hh`; without one, the time is that of `zone` (empty: UTC). A time that occurs
    twice in its zone, in autumn, is the first; one that is skipped in spring has the offset before the change. Digits
    below a millisecond are cut off, so that a time never moves into its future. A date alone, week dates, 24:00 and
    leap seconds are rejected.
    """
    if len(text) > MAX_TIMESTAMP_LENGTH or _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone_of(zone) if zone else UTC)
        epoch_ms = (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None
    return epoch_ms if TIMESTAMP_MIN_MS <= epoch_ms <= TIMESTAMP_MAX_MS else None

"""Parses exact values: integers, decimals and timestamps.

The parsers never use a float, and their cost does not depend on the size of an exponent.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from fraud_rules.runtime.clock import utc

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

_OTHER_UNITS: Final = (("seconds", 1_000, 1), ("microseconds", 1, 1_000), ("nanoseconds", 1, 1_000_000))
"""Each unit with its length in ms, as a fraction."""

_MAX_EXPONENT_DIGITS: Final = 9
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


def unit_hint(number: int | None) -> str:
    """The continuation of a message about a number that is no plausible epoch ms: the unit that would make it one.

    Empty if the number is in none of the other usual units.
    """
    for unit, factor, divisor in _OTHER_UNITS:
        epoch_ms = 0 if number is None else number * factor // divisor
        if _PLAUSIBLE_FROM_MS <= epoch_ms < _PLAUSIBLE_UNTIL_MS:
            return f"; in {unit} it is {format_timestamp(epoch_ms)}: send epoch milliseconds"
    return ""


def parse_timestamp(text: str) -> int | None:
    """The epoch ms of a date and time; None for any other text.

    The format is ISO-8601 with `T` or a blank between date and time. Seconds and their fraction are optional. The
    offset is `Z`, `+hh:mm`, `+hhmm` or `+hh`; without one, the time is UTC. Digits below a millisecond are cut off, so
    that a time never moves into its future. A date alone, week dates, 24:00 and leap seconds are rejected.
    """
    if len(text) > MAX_TIMESTAMP_LENGTH or _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    value = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    epoch_ms = value // _MILLISECOND
    return epoch_ms if TIMESTAMP_MIN_MS <= epoch_ms <= TIMESTAMP_MAX_MS else None

"""The oracle's times: instants, the forms in which a literal writes them, and clocks of IANA zones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from tests.support.oracle.refusal import FilterRefused

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCKS_END_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * 1000
CLOCKS: dict[str, Callable[[datetime], int]] = {
    "hour": lambda local: local.hour,
    "minute_of_day": lambda local: local.hour * 60 + local.minute,
    "weekday": lambda local: local.isoweekday(),
    "day": lambda local: local.day,
    "month": lambda local: local.month,
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)


@dataclass(frozen=True, order=True)
class Instant:
    """A timestamp: no number, so that the two never meet."""

    ms: int


@cache
def zone_named(name: str) -> ZoneInfo:
    """The zone of the locked tzdata package, whatever tz database the machine has. Raises FilterRefused."""
    if name not in files("tzdata").joinpath("zones").read_text().split():
        raise FilterRefused(f"{name!r} is no zone")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as compiled:
        return ZoneInfo.from_file(compiled, name)


def on_clock(function: str, moment: Instant, zone: ZoneInfo) -> int | None:
    """What the local clock or calendar shows; None outside the years 1970 to 2099 in UTC."""
    if not 0 <= moment.ms < CLOCKS_END_MS:
        return None
    return CLOCKS[function]((EPOCH + timedelta(milliseconds=moment.ms)).astimezone(zone))


def epoch_ms(text: str) -> int:
    """The forms of times in payments."""
    found = _TIME.fullmatch(text)
    if found is None or found[2] >= "24" or (found[3] or "+00")[1:3] > "18":
        raise FilterRefused(f"{text!r} is no time")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise FilterRefused(f"{text!r} is no time") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if "." in found[2] and found[2].split(".")[1][3:].strip("0"):
        raise FilterRefused(f"{text!r} is finer than a millisecond")
    return (moment - EPOCH) // timedelta(milliseconds=1)


def is_in_another_unit(number: int) -> bool:
    """Whether the number is a time of 2000 to 2099 in seconds, microseconds or nanoseconds."""
    first, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2000, 2100))
    return any(first * a_second <= number < end * a_second for a_second in (1, 10**6, 10**9))

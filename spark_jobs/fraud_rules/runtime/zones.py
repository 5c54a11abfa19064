"""Time zones by name, from the pinned release of the tz database.

The rules of a zone must not depend on the host, so this module reads them from the package `tzdata` and never from the
operating system.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z][A-Za-z0-9_+-]*){0,2}", re.ASCII)


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """The zone with this name. Raises ValueError without one."""
    place = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    if _NAME.fullmatch(name) is None or not place.is_file():
        raise ValueError(f"no time zone is called {name!r}")
    with place.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def is_zone(name: str) -> bool:
    """Whether a zone has this name."""
    try:
        zone_of(name)
    except ValueError:
        return False
    return True


CALENDAR_END_MS: Final = 4_102_444_800_000
"""2100-01-01T00:00:00Z. Local times are known from 1970 to 2099."""

_FIRST_S: Final = -50 * 86_400
"""The first offset applies from 1969-11-12 on, because the local month of a time in January 1970 may begin in
1969."""

_STEP_S: Final = 5 * 86_400
"""Shorter than the time between any two changes of a zone, of which the shortest is a week."""


@lru_cache(maxsize=64)
def utc_offsets(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offsets of a zone from UTC until 2099: the times from which each applies in epoch ms, ascending from November
    1969, and the offsets in ms. Raises ValueError without the zone."""
    zone = zone_of(name)

    def offset_s(epoch_s: int) -> int:
        return int((datetime.fromtimestamp(epoch_s, zone).utcoffset() or timedelta()).total_seconds())

    changes = [(_FIRST_S, offset_s(_FIRST_S))]
    for end_s in range(_FIRST_S + _STEP_S, CALENDAR_END_MS // 1_000 + _STEP_S, _STEP_S):
        before_s = changes[-1][1]
        if offset_s(end_s) != before_s:
            moments = range(end_s - _STEP_S, end_s + 1)
            change_s = moments[bisect_left(moments, True, key=lambda moment: offset_s(moment) != before_s)]
            changes.append((change_s, offset_s(change_s)))
    starts_ms, offsets_ms = np.array(changes, dtype=np.int64).T * 1_000
    return starts_ms, offsets_ms

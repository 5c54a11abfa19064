"""Time zones by name, from the pinned release of the tz database.

The rules of a zone must not depend on the host, so this module reads them from the package `tzdata` and never from the
operating system.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

__all__ = ["is_zone", "zone_of"]

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

"""Time zones come from the pinned package, whatever the host has."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, resources
from itertools import pairwise

import numpy as np
import pytest

from fraud_rules.runtime.zones import CALENDAR_END_MS, is_zone, utc_offsets, zone_of
from tests.support.places import ROOT


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_a_zone_has_its_name(name: str) -> None:
    assert zone_of(name).key == name


@pytest.mark.parametrize("name", ["", "Mars/Base", "../zones", "Europe", "Europe/Berlin/", "europe/../UTC", "zone.tab"])
def test_another_text_names_no_zone(name: str) -> None:
    assert not is_zone(name)


def test_the_zones_of_the_host_are_not_used() -> None:
    program = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from fraud_rules.runtime.zones import zone_of
zone_of("Asia/Tokyo")
read = [path for path in opened if path.endswith("Asia/Tokyo")]
assert read and all("tzdata" in path for path in read), read
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def _changes(name: str) -> list[tuple[int, int]]:
    """The changes of a zone since 1970 that its file lists, with the offsets, in ms. Python's own reader knows them."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        zone = import_module("zoneinfo._zoneinfo").ZoneInfo.from_file(file)
    offsets_s = [int(each.utcoff.total_seconds()) for each in zone._ttinfos]
    known = [*zip(zone._trans_utc, offsets_s, strict=True)]
    changed = [after for before, after in pairwise(known) if before[1] != after[1]]
    return [(start * 1_000, offset * 1_000) for start, offset in changed if 0 < start * 1_000 < CALENDAR_END_MS]


def test_no_zone_changes_twice_within_five_days() -> None:
    names = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    assert len(names) > 500
    gaps_ms = [after - before for name in names for (before, _), (after, _) in pairwise(_changes(name))]
    assert min(gaps_ms) > 5 * 86_400_000


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Recife", "Asia/Gaza", "Africa/Monrovia", "UTC"])
def test_the_offsets_of_a_zone_have_all_its_changes(name: str) -> None:
    starts_ms, offsets_ms = utc_offsets(name)
    changes = [*zip(starts_ms.tolist(), offsets_ms.tolist(), strict=True)]
    assert set(_changes(name)) <= set(changes)
    assert starts_ms[0] == -50 * 86_400_000
    assert np.all(np.diff(starts_ms) > 0)


def test_the_offsets_go_on_after_the_last_change_of_the_file() -> None:
    starts_ms, offsets_ms = utc_offsets("Europe/Berlin")
    # 2099-10-25T01:00:00Z, the last change of the century
    assert (starts_ms[-1], offsets_ms[-1]) == (4_096_573_200_000, 3_600_000)

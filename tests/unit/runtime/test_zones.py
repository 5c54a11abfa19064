"""Time zones come from the pinned package, whatever the host has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fraud_rules.runtime.zones import is_zone, zone_of
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

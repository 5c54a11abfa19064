"""docs/reliability.md: each fault names tests that exist."""

from __future__ import annotations

import re

from tests.support.places import ROOT

_ROW = re.compile(r"^\| (?!fault|change|---)(.+?) \|.*\| ([^|]+) \|$", re.MULTILINE)


def test_each_fault_has_a_test() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = _ROW.findall(page.partition("\n## How the guarantee is tested")[0])
    assert len(rows) > 30
    known = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for fault, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, fault
        assert set(named) <= known, fault

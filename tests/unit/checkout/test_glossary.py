"""docs/glossary.md: every term once, and a reason for each class name that exists twice."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.places import ROOT

MOST_DOUBLED = 6
_TERM = re.compile(r"^- \*\*(.+?)\*\*: ", re.MULTILINE)


def test_every_term_is_in_the_glossary_once() -> None:
    terms = _TERM.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(terms) > 100
    assert len(set(terms)) == len(terms)


def test_a_class_name_has_one_meaning() -> None:
    """A class name of the product that exists twice is in the glossary, with its reason."""
    places = defaultdict(set)
    for path in (path for source in ("spark_jobs", "plugins", "bench") for path in (ROOT / source).rglob("*.py")):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].add(path)
    doubled = {name for name, paths in places.items() if len(paths) > 1}
    section = (
        (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("\n## Class names that exist twice\n")[2]
    )
    listed = set(re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE))
    assert doubled <= listed
    assert len(listed) <= MOST_DOUBLED

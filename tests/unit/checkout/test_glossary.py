"""docs/glossary.md: every term once, modules that exist, and a reason for each class name that exists twice."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.places import ROOT

MOST_DOUBLED = 6
SOURCES = ("spark_jobs/fraud_rules", "plugins/fraud_ops", "dags")
_ROW = re.compile(r"^\| (?!term|---)(.+?) \| .+? \| (.+?) \| .*\|$", re.MULTILINE)


def rows() -> list[tuple[str, list[str]]]:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("\n## Class names")[0]
    return [(term, re.findall(r"`([^`]+)`", code)) for term, code in _ROW.findall(text)]


def test_every_term_is_in_the_glossary_once() -> None:
    terms = [term for term, _ in rows()]
    assert len(terms) > 100
    assert len(set(terms)) == len(terms)


def test_every_module_of_the_glossary_exists() -> None:
    places = [ROOT / source for source in SOURCES]
    unknown = [
        f"{term}: {name}"
        for term, names in rows()
        for name in names
        if not any((place / name).is_dir() or (place / f"{name}.py").is_file() for place in places)
    ]
    assert not unknown


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

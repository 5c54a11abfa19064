"""docs/glossary.md: every term once, and every module that it names exists."""

from __future__ import annotations

import re

from tests.support.places import ROOT

SOURCES = ("spark_jobs/fraud_rules", "plugins/fraud_ops", "dags")
_ROW = re.compile(r"^\| (?!term|---)(.+?) \| .+? \| (.+?) \| .*\|$", re.MULTILINE)


def rows() -> list[tuple[str, list[str]]]:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("\n## Verbs")[0]
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

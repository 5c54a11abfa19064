"""Each link of the documents leads to a file and to a heading of it, and each test that they name exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.support.places import ROOT
from tests.support.sources import sources

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")
_SOURCES = (".py", ".ts", ".tsx", ".yaml", ".yml")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_every_link_leads_somewhere() -> None:
    lost = []
    for page in PAGES:
        for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.append(f"{page.relative_to(ROOT)}: {link}")
    assert not lost


def test_every_named_test_exists() -> None:
    known = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    named = {name for page in PAGES for name in re.findall(r"\b(test_\w+)(?:\.py)?`", page.read_text(encoding="utf-8"))}
    assert named - known == set()


def test_every_page_that_the_product_names_exists() -> None:
    """A message, a page or a comment that sends its reader to a page of the documents."""
    folders = ("plugins", "spark_jobs", "dags", "config")
    texts = [path.read_text(encoding="utf-8") for path in sources(*folders, suffixes=_SOURCES)]
    named = {name for text in texts for name in re.findall(r"\bdocs/[a-z/-]+\.md\b", text)}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

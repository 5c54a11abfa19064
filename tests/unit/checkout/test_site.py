"""mkdocs.yml: its nav has every page of the documents once, and its hook reads lists as GitHub does."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.places import ROOT

HOOK = runpy.run_path(str(ROOT / "bin" / "site_hook.py"))
SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

WRITTEN = """Text:
- one
  goes on
  - deeper
1. first:
   ```
   - code
   ```
2. second
"""
READ = """Text:

- one
    goes on
    - deeper
1. first:
    ```
    - code
    ```
2. second
"""


def pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, dict):
            for part in entry.values():
                yield from pages(part)
        else:
            yield entry


def test_the_nav_has_every_page_once_and_begins_with_the_tour() -> None:
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    shown = list(pages(HOOK["expanded"](SITE["nav"], ROOT)))
    assert sorted(shown) == sorted(path.relative_to(ROOT).as_posix() for path in written)
    assert shown[0] == "README.md" and "## A tour" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_site_loads_nothing_from_other_hosts() -> None:
    assert SITE["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript"} & SITE.keys()


def test_lists_are_read_as_github_reads_them() -> None:
    assert HOOK["on_page_markdown"](WRITTEN) == READ

"""A hook of mkdocs: it expands the folders of the nav, and reads the pages as GitHub does.

Python-Markdown asks for an empty line before a list and for four blanks before its parts; GitHub and our pages do not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"\s*```")
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) ")


def on_config(config: Any) -> Any:
    """Expand the folders, and make the anchors of headings as GitHub does."""
    config.nav = expanded(config.nav, Path(config.docs_dir))
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": slug}
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Write the lists of a page in the form of Python-Markdown."""
    return "\n".join(_lines(markdown.split("\n")))


def expanded(nav: list[Any], folder: Path) -> list[Any]:
    """The nav with the pages of `folder` instead of each entry `PATH/*`, without those that the nav names beside it."""
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            found += [{title: expanded(part, folder) for title, part in entry.items()}]
        elif entry.endswith("/*"):
            pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{entry}.md"))
            found += [page for page in pages if page not in nav]
        else:
            found.append(entry)
    return found


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def _lines(lines: list[str]) -> list[str]:
    found: list[str] = []
    levels: list[int] = []  # the columns at which the text of the open items begins
    fenced = False
    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        item = None if fenced else _ITEM.match(line)
        begins_list = item is not None and not levels
        if item is not None or (not fenced and text and indent == 0):
            levels = [level for level in levels if level <= indent]
        depth = sum(level <= indent for level in levels) if text else 0
        if begins_list and found and found[-1].strip():
            found.append("")
        outer = levels[depth - 1] if depth else 0
        found.append(" " * (4 * depth) + line[min(outer, indent) :] if text else line)
        if item is not None:
            levels = [*levels[:depth], item.end()]
        if _FENCE.match(line):
            fenced = not fenced
    return found

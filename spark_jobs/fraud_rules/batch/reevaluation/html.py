"""Builds the parts of a self-contained HTML page. This module escapes all data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#222}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2rem}
.note{background:#fff6dc;border-left:4px solid #c9a227;padding:.5rem .8rem}
.tiles{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}
.tile{border:1px solid #ddd;border-radius:6px;padding:.4rem .8rem;min-width:7rem}
.tile b{display:block;font-size:1.3rem}.tile span{color:#666;font-size:.8rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem}
th,td{text-align:left;padding:.25rem 1.2rem .25rem 0;border-bottom:1px solid #eee;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
th{white-space:nowrap}
summary{cursor:pointer;color:#4878a8}
figure{margin:0}svg{width:100%;height:auto}
"""


# The file is in the folder of the page, in the archive and on Airflow's server.
_NUMBERS = '<p><a href="result.json">All of this as JSON</a></p>\n'


def document(title: str, subtitle: str, parts: Iterable[str]) -> bytes:
    """Build the whole page."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>\n{body}\n{_NUMBERS}</body></html>\n"
    ).encode()


def note(text: str) -> str:
    """Build a prominent remark."""
    return f'<p class="note">{escape(text)}</p>'


def paragraph(text: str) -> str:
    """Build a paragraph."""
    return f"<p>{escape(text)}</p>"


def tiles(values: Iterable[tuple[str, object]]) -> str:
    """Build the tiles of the key figures."""
    cells = "".join(f'<div class="tile"><b>{_shown(v)}</b><span>{escape(name)}</span></div>' for name, v in values)
    return f'<div class="tiles">{cells}</div>'


def section(title: str, *parts: str) -> str:
    """Build a section with a heading."""
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(parts)


def figure(svg: str) -> str:
    """Wrap an SVG plot."""
    return f"<figure>{svg}</figure>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Build a table. Numbers and their heads are right-aligned."""
    cells = list(rows)
    numbers = [bool(cells) and _is_number(value) for value in (cells[0] if cells else heads)]
    head = "".join(_cell("th", escape(name), number) for name, number in zip(heads, numbers, strict=True))
    body = "".join("<tr>" + "".join(_cell("td", _shown(v), _is_number(v)) for v in row) + "</tr>" for row in cells)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def folded(title: str, *parts: str) -> str:
    """Build a collapsed part that a click opens."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def _cell(tag: str, text: str, number: bool) -> str:
    kind = ' class="n"' if number else ""
    return f"<{tag}{kind}>{text}</{tag}>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, int) and _is_number(value):
        return f"{value:,}"
    return escape(f"{value:,.1f}" if isinstance(value, float) else str(value))

"""Renders results as the tables of docs/benchmarks.md. Pure, except for `update`, which rewrites that file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.figures import Figure, Rows, Spread, spread
from bench.results import Results

_HEADER = ("| figure | target | median (least to most) |", "| --- | --- | --- |")
_WHOLE_FROM = 100


def render(rows: Sequence[Rows], results: Mapping[str, Results]) -> dict[str, str]:
    """Return the generated parts of the page, by the name of their place."""
    measured = [(each, results[each.name]) for each in rows if each.name in results]
    shown = [(each, found, lines) for each, found in measured if (lines := _promises(each, found))]
    return {
        "figures": "\n".join([*_HEADER, *(line for each, _, lines in shown for line in (_title(each), *lines))]),
        "methods": "\n".join(_methods([(each, found) for each, found, _ in shown])),
        "machine": "\n".join(_machine(list(results.values()))),
    }


def update(page: Path, parts: Mapping[str, str]) -> None:
    """Replace the generated parts of the page, each between its markers."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = replaced(text, name, part)
    page.write_text(text, encoding="utf-8")


def replaced(text: str, name: str, part: str) -> str:
    """Return the text with `part` between the markers of that name. Raises ValueError without them."""
    begin, end = f"<!-- {name}: begin, generated -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no place for {name}: {begin} ... {end}")
    return pattern.sub(lambda _: f"{begin}\n{part}\n{end}", text, count=1)


def verdict(figure: Figure, values: Spread) -> str:
    """Whether the target is reached by the median, and by every run."""
    if figure.target is None:
        return ""
    if all(map(figure.target.reached, values.values)):
        return "reached"
    return "reached by the median" if figure.target.reached(values.middle) else "**not reached**"


def number(value: float) -> str:
    """Format a value for display."""
    if abs(value) >= _WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}"


def _promises(rows: Rows, results: Results) -> list[str]:
    """The lines of a group: its promises, and each target that it misses."""
    values = [(figure, found) for figure in rows.figures if (found := spread(results.runs, figure.key)) is not None]
    return [_line(*each) for each in values if each[0].promise or _missed(*each)]


def _title(rows: Rows) -> str:
    return f"| **{rows.title}** |"


def _methods(shown: Sequence[tuple[Rows, Results]]) -> Iterator[str]:
    """The groups by day and revision, as lines of text."""
    found: dict[str, list[str]] = {}
    for rows, results in shown:
        group = f"`{rows.name}` {len(results.runs)}"
        found.setdefault(f"{results.measured[:10]} {results.machine['revision']}", []).append(group)
    for measured, groups in sorted(found.items(), reverse=True):
        yield from textwrap.wrap(f"- {measured}: {', '.join(groups)}", 140, subsequent_indent="  ")


def _line(figure: Figure, values: Spread) -> str:
    title = ", ".join(part for part in (figure.title, figure.unit) if part)
    measured = f"{number(values.middle)}{_range(values)}"
    if _missed(figure, values):
        measured += f", {verdict(figure, values)}"
    return f"| {title} | {_target(figure)} | {measured} |"


def _missed(figure: Figure, values: Spread) -> bool:
    return verdict(figure, values) not in ("", "reached")


def _range(values: Spread) -> str:
    return f" ({number(values.least)} to {number(values.most)})" if len(values.values) > 1 else ""


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.target.at_least else '≤'} {number(figure.target.bound)}"


def _machine(results: Sequence[Results]) -> Iterator[str]:
    """The machine and versions of the newest result, as lines of text."""
    newest = max(results, key=lambda each: each.measured, default=None)
    if newest is not None:
        yield from textwrap.wrap(
            "; ".join(f"{name}: {value}" for name, value in newest.machine.items()) + ".", 120, break_on_hyphens=False
        )

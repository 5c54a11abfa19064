"""Renders results as the tables of docs/benchmarks.md. Pure, except for `update`, which rewrites that file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.figures import Figure, Rows, Spread, spread
from bench.results import Results

_NAMES = ("figures", "machine")
_WHOLE_FROM = 100


def render(rows: Sequence[Rows], results: Mapping[str, Results]) -> dict[str, str]:
    """Return the generated parts of the page, by the name of their place."""
    measured = [each for each in rows if each.name in results]
    return {
        "figures": "\n".join(line for each in measured for line in _table(each, results[each.name])),
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


def _table(rows: Rows, results: Results) -> Iterator[str]:
    yield from (f"### {rows.title}", "", rows.how, "")
    yield "| figure | target | each run | min | median | max | | Flink demo |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for figure in rows.figures:
        values = spread(results.runs, figure.key)
        if values is not None:
            yield _line(figure, values)
    busiest = max((run.get("load_average", 0.0) for run in results.runs), default=0.0)
    yield ""
    yield (
        f"`{results.command}`, {results.measured}, revision {results.machine['revision']}, "
        f"{results.machine['processor']}; load average before the runs at most {busiest:.1f}"
    )
    yield ""


def _line(figure: Figure, values: Spread) -> str:
    each = " / ".join(map(number, values.values))
    middle = f"{number(values.least)} | **{number(values.middle)}** | {number(values.most)}"
    title = f"{figure.title}, {figure.unit}"
    return f"| {title} | {_target(figure)} | {each} | {middle} | {verdict(figure, values)} | {figure.flink} |"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.target.at_least else '≤'} {number(figure.target.bound)}"


def _machine(results: Sequence[Results]) -> Iterator[str]:
    """The machine and versions of the newest result."""
    newest = max(results, key=lambda each: each.measured, default=None)
    if newest is not None:
        yield from ("| | |", "| --- | --- |")
        yield from (f"| {name} | {value} |" for name, value in newest.machine.items())

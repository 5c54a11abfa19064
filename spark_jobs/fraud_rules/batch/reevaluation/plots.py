"""Draws plots as SVG text for a self-contained page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, StrMethodFormatter

_SIZE = (9.6, 2.8)
_COLOURS = {"published": "#4878a8", "added": "#4f9d5d", "retracted": "#c8553d"}
_PLAIN = "#4878a8"
_MOST_UPRIGHT = 26
_MOST_NUMBERED = 12

Series = tuple[str, Sequence[float]]
"""The name and the values of a series."""


def bars(title: str, labels: Sequence[str], series: Sequence[Series], axis: str) -> str:
    """Draw bars by label, with several series side by side. A series with only zeros is left out."""
    shown = [each for each in series if any(each[1])] or series[:1]

    def draw(axes: Axes) -> None:
        width = 0.8 / len(shown)
        for k, (name, values) in enumerate(shown):
            places = [i + (k - (len(shown) - 1) / 2) * width for i in range(len(values))]
            drawn = axes.bar(places, values, width, color=_COLOURS.get(name, _PLAIN), label=name)
            if len(values) <= _MOST_NUMBERED:
                axes.bar_label(drawn, [f"{value:,.0f}" if value else "" for value in values], fontsize=7)
        axes.set_xticks(range(len(labels)), labels, fontsize=7, rotation=0 if len(labels) <= _MOST_UPRIGHT else 90)
        axes.set_ylim(bottom=0, top=max(1.0, axes.get_ylim()[1]))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if len(series) > 1:
            axes.legend(fontsize=7, frameon=False)

    return _svg(title, axis, draw)


def curve(title: str, points: Sequence[tuple[float, float]], marked: float, axes_names: tuple[str, str]) -> str:
    """Draw a curve over several powers of ten, with one marked x value."""
    x, y = [point[0] for point in points], [point[1] for point in points]

    def draw(axes: Axes) -> None:
        axes.plot(x, y, marker=".", color=_PLAIN)
        axes.axvline(marked, color=_COLOURS["retracted"], linewidth=1, linestyle="--")
        axes.set_xlabel(axes_names[0], fontsize=8)
        if min(x) > 0:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0, top=2 * max(1.0, *y))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

    return _svg(title, axes_names[1], draw)


def _svg(title: str, axis: str, draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    draw(axes)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylabel(axis, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "fraud-rules"}):  # so that equal numbers give equal pages
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]

"""Plots as SVG text, to stand inside a page that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = ["bars", "lines", "stacked"]

_SIZE = (7.2, 2.6)
COLOURS = ("#4878a8", "#4f9d5d", "#c8553d", "#8a6fb0", "#c9a227")


def bars(title: str, labels: Sequence[str], values: Sequence[float], axis: str) -> str:
    """One bar a label."""

    def draw(axes: Axes) -> None:
        axes.bar(range(len(values)), values, color=COLOURS[0])
        _label(axes, labels)

    return _svg(title, axis, draw)


def stacked(title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], axis: str) -> str:
    """Bars of several series side by side."""

    def draw(axes: Axes) -> None:
        width = 0.8 / max(1, len(series))
        for k, (name, values) in enumerate(series):
            places = [i + (k - (len(series) - 1) / 2) * width for i in range(len(values))]
            axes.bar(places, values, width, color=COLOURS[k % len(COLOURS)], label=name)
        _label(axes, labels)
        axes.legend(fontsize=7, frameon=False)

    return _svg(title, axis, draw)


def lines(
    title: str, x: Sequence[float], series: Sequence[tuple[str, Sequence[float]]], axes_names: tuple[str, str]
) -> str:
    """Lines over a common x."""

    def draw(axes: Axes) -> None:
        for k, (name, values) in enumerate(series):
            axes.plot(x, values, marker=".", color=COLOURS[k % len(COLOURS)], label=name)
        axes.set_xlabel(axes_names[0], fontsize=8)
        if len(series) > 1:
            axes.legend(fontsize=7, frameon=False)

    return _svg(title, axes_names[1], draw)


def _label(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), labels, fontsize=7, rotation=0 if len(labels) <= 24 else 90)


def _svg(title: str, axis: str, draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    draw(axes)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylabel(axis, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "fraud-rules"}):  # the same numbers give the same page
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]

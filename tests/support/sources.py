"""The files of this checkout that its own tests read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

_OF_OTHERS = {"node_modules", "__pycache__"}


def sources(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Path]:
    """The files with one of these suffixes below folders of the checkout, in the order of their names.

    The packages of npm are not walked: they have fifty times as many files as the checkout.
    """
    for folder in folders:
        for place, below, names in os.walk(ROOT / folder):
            below[:] = sorted(set(below) - _OF_OTHERS)
            yield from (Path(place, name) for name in sorted(names) if name.endswith(suffixes))

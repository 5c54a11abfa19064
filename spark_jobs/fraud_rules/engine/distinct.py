"""The distinct values of an array whose values are mostly all equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values in ascending order, and the position of each value among them: int64[k], int64[n].

    The result is that of `np.unique`. If all values are equal, no sort is needed: an engine asks this about each
    grouping of each batch, and a small batch has one version of the rules.
    """
    first = values[:1]
    if (values == first).all():
        return first, np.zeros(len(values), dtype=np.int64)
    found, positions = np.unique(values, return_inverse=True)
    return found, positions

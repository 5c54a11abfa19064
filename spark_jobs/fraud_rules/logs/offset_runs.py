"""Offsets as runs of consecutive ones, because rules that exceed a budget often come in one file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def runs_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last offset of each run, ascending."""
    first = last = None
    for offset in sorted(offsets):
        if first is None or last is None:
            first = last = offset
        elif offset <= last + 1:
            last = offset
        else:
            yield first, last
            first = last = offset
    if first is not None and last is not None:
        yield first, last

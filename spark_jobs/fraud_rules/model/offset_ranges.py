"""Ranges of offsets in the partitions of a topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

OffsetRanges: TypeAlias = Mapping[int, tuple[int, int]]
"""The offsets [start, end) by partition."""


def share_of(ranges: OffsetRanges, number: int, count: int) -> OffsetRanges:
    """The share with this number of `count` shares, which are equal in each partition."""
    return {
        partition: (start + (end - start) * number // count, start + (end - start) * (number + 1) // count)
        for partition, (start, end) in ranges.items()
    }

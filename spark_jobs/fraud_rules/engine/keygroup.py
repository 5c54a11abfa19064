"""Maps grouping keys to key groups.

A key group is the unit of state and of parallelism (Flink's term). The checkpoint fixes the number of key groups. The
hash is part of the stored format: it must be the same in every process, on every machine and in every release.

    h = blake2b-64("a&b")                  the grouping's canonical (sorted) field names joined by '&'; "" without any
    for each field, in that order:
        h = splitmix64(h ^ v)              v: the int64 value (a decimal unscaled, a timestamp in ms),
                                           for a string blake2b-64 of its UTF-8 bytes
    key group = h mod key_groups           (unsigned)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@lru_cache(maxsize=65_536)
def hash_text(text: str) -> int:
    """The 64-bit hash of a string, unsigned."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _splitmix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Steele, Lea and Flood's SplitMix64 finaliser, element by element, modulo 2**64."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def key_groups_of(
    grouping: Sequence[str], hashes: Sequence[NDArray[np.uint64]], rows: int, key_groups: int
) -> NDArray[np.int64]:
    """The key group of each row. `hashes` holds one array per grouping field: the values, or `hash_text` of strings."""
    h = np.full(rows, hash_text("&".join(grouping)), dtype=np.uint64)
    for values in hashes:
        h = _splitmix64(h ^ values)
    return (h % np.uint64(key_groups)).astype(np.int64)

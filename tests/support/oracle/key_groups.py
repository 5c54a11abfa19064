"""The documented hash of a grouping key, one key at a time on Python's integers.

h = blake2b-64("a&b")           the grouping's sorted field names joined by '&'
for each field, in that order:
    h = splitmix64(h ^ v)       v: the value (a decimal unscaled, a timestamp in ms), blake2b-64 of a string
key group = h mod key groups
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_64_BITS = 2**64 - 1


def key_group(grouping: Sequence[str], values: Sequence[int | str], key_groups: int) -> int:
    """The key group of a key. `values` follow the order of the grouping's fields."""
    state = _text_hash("&".join(grouping))
    for value in values:
        state = _splitmix64(state ^ (_text_hash(value) if isinstance(value, str) else value & _64_BITS))
    return state % key_groups


def _text_hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _splitmix64(state: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    state = (state + 0x9E3779B97F4A7C15) & _64_BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return state ^ (state >> 31)

"""Salting: distributes key groups evenly over the tasks of a rebuild.

Spark assigns a row to a partition by the hash of its grouping key, and the hashes of a few small numbers are uneven: of
8 key groups, 2 partitions would get 5 and 3, and a segment lasts as long as the larger share. So the key of a row has a
second number, the salt, which is chosen so that the partitions take the key groups in turn.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Final

_SEED: Final = 42
_WORD: Final = 0xFFFF_FFFF


@cache
def salts(key_groups: int, partitions: int) -> tuple[int, ...]:
    """The salt of each key group: the smallest number that puts it on partition `key group % partitions`."""
    return tuple(
        next(salt for salt in count() if partition_of(key_group, salt, partitions) == key_group % partitions)
        for key_group in range(key_groups)
    )


def partition_of(key_group: int, salt: int, partitions: int) -> int:
    """The partition of the grouping key (key_group, salt), both of type int, by Spark's hash partitioning."""
    return _signed(_murmur3(salt, _murmur3(key_group, _SEED))) % partitions


def _murmur3(value: int, seed: int) -> int:
    """Murmur3 (x86, 32 bits) of one 32-bit word, as Spark's `hash` computes it. The result is unsigned."""
    mixed = _rotated((value & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    h = (_rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _WORD
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _WORD
    return h ^ (h >> 16)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word

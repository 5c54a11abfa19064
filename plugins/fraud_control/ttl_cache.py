"""Caches for values that are expensive to read and may be a moment old. Threads can share them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class CachedByKey(Generic[K, T]):
    """Caches the result of `read` by key for `ttl_s` seconds after it was read.

    A slow read therefore lasts as long as a fast one. Beyond `size` keys, the cache drops those that were read first.
    """

    def __init__(
        self, read: Callable[[K], T], ttl_s: float, size: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._values: TTLCache[K, T] = TTLCache(maxsize=size, ttl=ttl_s, timer=clock_s)
        self._generation = 0

    def get(self, key: K) -> T:
        """The value of a key. Raises what `read` raises. Several threads may read one missing key at a time."""
        with self._lock:
            generation = self._generation
            try:
                return self._values[key]
            except KeyError:
                pass
        value = self._read(key)
        with self._lock:
            if generation == self._generation:  # otherwise the value may be older than the change
                self._values[key] = value
        return value

    def cached(self, key: K) -> T:
        """The value of a key, without reading it. Raises KeyError."""
        with self._lock:
            return self._values[key]

    def forget(self) -> None:
        """Drop all values, because this process has changed one."""
        with self._lock:
            self._generation += 1
            self._values.clear()


class CachedValue(Generic[T]):
    """Caches the result of `read` for `ttl_s` seconds. One thread at a time reads; the others wait for its result."""

    def __init__(self, read: Callable[[], T], ttl_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._cache: CachedByKey[None, T] = CachedByKey(lambda _: read(), ttl_s, 1, clock_s)

    def __call__(self) -> T:
        """The value. Raises the errors of `read`."""
        with self._lock:
            return self._cache.get(None)

    def forget(self) -> None:
        """Drop the value, so that the next call reads it again."""
        with self._lock:
            self._cache.forget()

"""Compiles the window functions, and locates the cache of their machine code.

All checkouts and installations of a user on a host share one cache. numba identifies cached code by the path and the
content of its source file, but these functions are inlined across files: after a change of one file, the code of other
files would be stale. So the folder's name contains a digest of the whole package, of numba's version and of the CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import llvmlite.binding as llvm
import numba

from fraud_rules.runtime.caches.folder import cache_folder
from fraud_rules.runtime.file_lock import FileLock
from fraud_rules.runtime.lock_wait import LockPatience, await_lock

_PACKAGE: Final = __name__.rpartition(".")[0]
_LOCK: Final = "lock"
_PATIENCE: Final = LockPatience(limit_s=3_600.0)


def _digest() -> str:
    """The digest of the package's sources (also in a zip file), of numba's version and of the CPU."""
    target = f"{numba.__version__} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    digest = hashlib.blake2b(target.encode(), digest_size=8)
    for source in _sources(files(_PACKAGE)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each


_DIGEST: Final = _digest()
_FOLDER: Final = cache_folder(f"numba-{_DIGEST}")  # numba unpickles the files, so no other user may write them


class SharedLocator:
    """Locates the cached code of this package's functions for numba: a `_CacheLocator`, see
    NUMBA_CACHE_LOCATOR_CLASSES."""

    def __init__(self, line: int) -> None:
        self._line = line

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> SharedLocator | None:
        """Create the locator of a function; None for a function of another package."""
        ours = function.__module__.startswith(f"{_PACKAGE}.")
        return cls(function.__code__.co_firstlineno) if ours else None

    def get_cache_path(self) -> str:
        """The folder of the cached code."""
        return str(_FOLDER)

    def ensure_cache_path(self) -> None:
        """Create the folder if it was removed."""
        _FOLDER.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """A stamp that is equal for equal code."""
        return _DIGEST

    def get_disambiguator(self) -> str:
        """Distinguishes functions with the same name and module."""
        return str(self._line)


@contextmanager
def compiling() -> Iterator[None]:
    """Hold the lock of compilation: one process compiles, and the others then find its code. Raises Stalled."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(_FOLDER / _LOCK) as lock:
        await_lock(lock, "the lock of the window kernel's compilation", _PATIENCE)
        yield


numba.config.CACHE_LOCATOR_CLASSES = ",".join(
    [f"{__name__}.{SharedLocator.__name__}", "InTreeCacheLocator", "UserWideCacheLocator", "ZipCacheLocator"]
)

# Without reference counts: they would cost more than the work, and these functions neither allocate nor keep arrays.
compiled = numba.njit(cache=True, _nrt=False)
inlined = numba.njit(cache=True, _nrt=False, forceinline=True)

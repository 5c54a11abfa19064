"""Compiles the window functions, locates the cache of their machine code, and adds CPU instructions that numba lacks.

All checkouts and installations of a user on a host share one cache. numba identifies cached code by the path and the
content of its source file, but these functions are inlined across files: after a change of one file, the code of other
files would be stale. So the folder's name contains a digest of the whole package, of numba's version and of the CPU.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fraud_rules.errors import Stalled
from fraud_rules.runtime.caches.folder import cache_folder
from fraud_rules.runtime.file_lock import locked

__all__ = [
    "HAS_CYCLES", "SharedLocator", "call", "compiled", "compiling", "cycles_now", "fetch", "inlined", "read_cycles",
    "timing_cycles",
]  # fmt: skip

_PACKAGE: Final = __name__.rpartition(".")[0]
_LOCK: Final = "lock"
_LOCK_WAIT_S: Final = 900.0


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
    with locked(_FOLDER / _LOCK, _LOCK_WAIT_S, _stalled):
        yield


def _stalled(pid: str) -> Stalled:
    return Stalled(f"process {pid} has compiled the window kernel for {_LOCK_WAIT_S:g} s: end it if it hangs")


numba.config.CACHE_LOCATOR_CLASSES = ",".join(
    [f"{__name__}.{SharedLocator.__name__}", "InTreeCacheLocator", "UserWideCacheLocator", "ZipCacheLocator"]
)

# Without reference counts: they would cost more than the work, and these functions neither allocate nor keep arrays.
compiled = numba.njit(cache=True, _nrt=False)
inlined = numba.njit(cache=True, _nrt=False, forceinline=True)

_READ, _KEEP, _DATA = 0, 3, 1

HAS_CYCLES: Final = platform.machine() in ("x86_64", "AMD64")
"""Whether programs may read the cycle counter. On other CPUs, the instruction can end the process."""


@intrinsic
def fetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Prefetch the first bytes of an array's row. This is only a hint to the CPU."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, row_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], row_type, types.intp)
        (stride, *_) = cgutils.unpack_tuple(builder, view.strides)
        address = builder.gep(builder.bitcast(view.data, ir.IntType(8).as_pointer()), [builder.mul(index, stride)])
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(function, [address, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.none(array, row), generate


@intrinsic
def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
    """Call a C function of two int64 without a result. It may be Python's, because compiled code keeps the GIL."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        of_type = ir.FunctionType(ir.VoidType(), [word, word])
        place, *values = [
            context.cast(builder, each, kind, types.int64) for each, kind in zip(arguments, signature.args, strict=True)
        ]
        builder.call(builder.inttoptr(place, of_type.as_pointer()), values)
        return context.get_dummy_value()

    return types.none(address, first, second), generate


@intrinsic
def read_cycles(typing_context: Any) -> Any:
    """The CPU's count of cycles since its start. Call this only if HAS_CYCLES."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(ir.IntType(64), [])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.readcyclecounter")
        return builder.call(function, [])

    return types.int64(), generate


@compiled
def timing_cycles(repetitions: int) -> int:
    """The cycles that a timing adds to what it times: the least of so many repetitions."""
    least = read_cycles()
    for _ in range(repetitions):
        began = read_cycles()
        least = min(least, read_cycles() - began)
    return least  # type: ignore[no-any-return]


@compiled
def cycles_now() -> int:
    """`read_cycles` for callers in Python."""
    return read_cycles()  # type: ignore[no-any-return]

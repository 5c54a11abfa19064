"""Stores the flat arrays of a grouping state in this process, or in files that every worker of the host maps.

Spark gives a partition to any free Python worker. With memory-mapped files, all workers of a host share one view of a
key group. Otherwise each worker would need its own view and would repeatedly bring it up to date.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import StorageFull

AnyArray = NDArray[Any]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
_LEAST_MAPPING_BYTES = 65_536


class Arrays(Protocol):
    """Named arrays that can grow along their first axis."""

    def open(self, name: str, dtype: type[np.generic], rows: int, columns: int) -> AnyArray:
        """Open the array, and grow it to at least `rows` (new rows are zero). Its columns never change while it exists.

        The shape is (rows or more, columns); for columns == 0 it is a vector of length rows or more.
        """

    def drop(self, name: str) -> None:
        """Remove the array. The next `open` creates a new array of zeros."""


@contextmanager
def named_full_disk(folder: Path, size_bytes: int) -> Iterator[None]:
    """Raise StorageFull if the disk of the views has no space for so many more bytes."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull(
            f"No space left on the disk of the views, {folder}, for {size_bytes:,} more bytes: free some space or set "
            "another folder (views_folder in config/detector.yaml); nothing is lost"
        ) from error


_NO_BYTES: AnyArray = np.empty(0, dtype=np.uint8)


def _with_reserve(size: int) -> int:
    """The length of a mapping for a file of this size. The file can grow up to it without another mapping. The part
    after the end of the file needs addresses, but no memory."""
    return max(2 * size, _LEAST_MAPPING_BYTES)


def _shape(rows: int, columns: int) -> tuple[int, ...]:
    return (rows, columns) if columns else (rows,)


class HeapArrays:
    """Arrays in the memory of this process."""

    def __init__(self) -> None:
        self._arrays: dict[str, AnyArray] = {}

    def open(self, name: str, dtype: type[np.generic], rows: int, columns: int) -> AnyArray:
        known = self._arrays.get(name)
        if known is not None and known.shape[0] >= rows:
            return known
        grown = np.zeros(_shape(rows, columns), dtype=dtype)
        if known is not None:
            grown[: known.shape[0]] = known
        self._arrays[name] = grown
        return grown

    def drop(self, name: str) -> None:
        self._arrays.pop(name, None)


class _Mapping:
    """A file in memory, for writing, until this object is deleted. `numpy.asarray` returns its bytes.

    It holds no file descriptor: `mmap.mmap` holds one for each file, and a worker maps many thousands of files if rules
    often clear or restart their groupings.
    """

    def __init__(self, file: int, size: int) -> None:
        """Raises OSError."""
        self._size = size
        self._address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if self._address == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (self._address, False), "version": 3}

    def __del__(self) -> None:
        if self._address != _FAILED:
            _libc.munmap(self._address, self._size)


class MappedArrays:
    """Arrays in files of one folder, shared by all processes that map them. The caller must hold the folder's lock.

    `open` raises StorageFull if the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: dict[str, tuple[int, AnyArray, AnyArray]] = {}
        """By name: the inode of the file, all mapped bytes, and the array of those that the file has."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, name: str, dtype: type[np.generic], rows: int, columns: int) -> AnyArray:
        row_bytes = np.dtype(dtype).itemsize * (columns or 1)
        file = os.open(f"{self._folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            found = os.fstat(file)
            size, wanted = found.st_size, max(rows * row_bytes, row_bytes)
            if size < wanted:
                self._allocate(file, size, wanted)
                size = wanted
            # A new mapping faults on each page again. The inode of a mapped file is not reused, so an equal inode means
            # the same file.
            inode, mapped, array = self._mapped.get(name, (None, _NO_BYTES, _NO_BYTES))
            if inode != found.st_ino or size > len(mapped):
                mapped = np.asarray(_Mapping(file, _with_reserve(size)))
            if inode != found.st_ino or array.nbytes != size // row_bytes * row_bytes:
                array = mapped[: size // row_bytes * row_bytes].view(dtype).reshape(_shape(size // row_bytes, columns))
                self._mapped[name] = found.st_ino, mapped, array
        finally:
            os.close(file)
        return array

    def _allocate(self, file: int, size: int, wanted: int) -> None:
        """Allocate disk blocks before the file is mapped: a write to a mapped hole on a full disk causes a SIGBUS."""
        with named_full_disk(self._folder, wanted - size):
            os.posix_fallocate(file, size, wanted - size)

    def drop(self, name: str) -> None:
        self._mapped.pop(name, None)
        # Other workers may still map the old file. The system frees its space when their mappings end.
        (self._folder / name).unlink(missing_ok=True)

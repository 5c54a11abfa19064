"""Stores the flat arrays of a grouping state in this process, or in files that every worker of the host maps.

Spark gives a partition to any free Python worker. With memory-mapped files, all workers of a host share one view of a
key group. Otherwise each worker would need its own view and would repeatedly bring it up to date.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import MappingsExhausted, StorageFull

AnyArray = NDArray[Any]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
_PUNCH_HOLE = 0x03
"""FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE."""

REGION_BYTES = 4_194_304
"""The size of a region. Larger arrays have files of their own, at most one for so many bytes of memory."""
_REGIONS = 32
_PAGE_BYTES = 4_096
_COMMON = "arrays"
_OWN_FILE = -1
_ENTRY = np.dtype([("name", "S24"), ("size", np.int64)])


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
        place = f"{socket.gethostname()}:{folder}"
        raise StorageFull(
            f"No space left on the disk of the views, {place}, for {size_bytes:,} more bytes: free some space or set "
            "another folder (views_folder in config/detector.yaml); nothing is lost"
        ) from error


_NO_BYTES: AnyArray = np.empty(0, dtype=np.uint8)


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
        """Raises MappingsExhausted."""
        self._size = size
        self._address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if self._address == _FAILED:
            raise _mapping_error(ctypes.get_errno())
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (self._address, False), "version": 3}

    def __del__(self) -> None:
        if self._address != _FAILED:
            _libc.munmap(self._address, self._size)


def _mapping_error(code: int) -> OSError | MappingsExhausted:
    """The error of a failed mapping."""
    if code != errno.ENOMEM:
        return OSError(code, os.strerror(code))
    return MappingsExhausted(
        "This host lets a process map too few files for the views of all key groups: raise vm.max_map_count on all "
        "worker hosts, or use fewer groupings or key groups; nothing is lost"
    )


class MappedArrays:
    """Arrays in files of one folder, shared by all processes that map them. The caller must hold the folder's lock.

    The system limits the mappings of a process, so the arrays lie in one file, each in a region of its own. An array
    that outgrows its region moves to a file of its own. The common file has holes: a region uses disk space only for
    the bytes of its array, and its other addresses need no memory.

    `open` raises StorageFull if the disk is full, MappingsExhausted if the process may map no more files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._common = _NO_BYTES
        self._places: dict[bytes, int] = {}
        self._views: dict[str, AnyArray] = {}
        """By name: the array in the common file."""
        self._own: dict[str, tuple[int, AnyArray, AnyArray]] = {}
        """By name: the inode of the file, all mapped bytes, and the array of those that the file has."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, name: str, dtype: type[np.generic], rows: int, columns: int) -> AnyArray:
        row_bytes = np.dtype(dtype).itemsize * (columns or 1)
        needed = max(rows, 1) * row_bytes
        place = self._place_of(name)
        held = int(self._entries["size"][place])
        if held == _OWN_FILE:
            return self._open_own(name, dtype, needed, columns)
        if needed > REGION_BYTES:
            return self._move_out(name, place, dtype, needed, columns)
        self._own.pop(name, None)
        if held < needed:
            with self._opened(_COMMON) as file:
                self._allocate(file, _offset(place) + held, needed - held)
            self._entries["size"][place] = held = needed
        array = self._views.get(name)
        size = held // row_bytes * row_bytes
        if array is None or array.nbytes != size:
            array = self._region(place)[:size].view(dtype).reshape(_shape(size // row_bytes, columns))
            self._views[name] = array
        return array

    def drop(self, name: str) -> None:
        place = self._place_of(name)
        held = int(self._entries["size"][place])
        self._views.pop(name, None)
        self._own.pop(name, None)
        self._entries["size"][place] = 0
        if held == _OWN_FILE:
            # Other workers may still map the old file. The system frees its space when their mappings end.
            (self._folder / name).unlink(missing_ok=True)
        elif held:
            self._empty(place, held)

    @property
    def _entries(self) -> AnyArray:
        """The directory of the common file: the name and the size in bytes of each region's array."""
        if not len(self._common):
            with self._opened(_COMMON) as file:
                self._allocate(file, 0, _PAGE_BYTES)
                self._common = np.asarray(_Mapping(file, _offset(_REGIONS)))
        return self._common[: _REGIONS * _ENTRY.itemsize].view(_ENTRY)

    def _place_of(self, name: str) -> int:
        """The region of an array."""
        key, entries = name.encode(), self._entries
        place = self._places.get(key)
        if place is None:
            names = entries["name"].tolist()
            place = self._places[key] = names.index(key) if key in names else names.index(b"")
            entries["name"][place] = key
        return place

    def _region(self, place: int) -> AnyArray:
        return self._common[_offset(place) : _offset(place + 1)]

    def _move_out(self, name: str, place: int, dtype: type[np.generic], needed: int, columns: int) -> AnyArray:
        """Move an array that outgrows its region to a file of its own."""
        held = int(self._entries["size"][place])
        (self._folder / name).unlink(missing_ok=True)
        array = self._open_own(name, dtype, needed, columns)
        array.reshape(-1).view(np.uint8)[:held] = self._region(place)[:held]
        self._entries["size"][place] = _OWN_FILE
        self._views.pop(name, None)
        self._empty(place, held)
        return array

    def _open_own(self, name: str, dtype: type[np.generic], needed: int, columns: int) -> AnyArray:
        row_bytes = np.dtype(dtype).itemsize * (columns or 1)
        with self._opened(name) as file:
            found = os.fstat(file)
            size = max(found.st_size, needed)
            if found.st_size < needed:
                self._allocate(file, found.st_size, needed - found.st_size)
            # A new mapping faults on each page again. The inode of a mapped file is not reused, so an equal inode means
            # the same file.
            inode, mapped, array = self._own.get(name, (None, _NO_BYTES, _NO_BYTES))
            if inode != found.st_ino or size > len(mapped):
                mapped = np.asarray(_Mapping(file, 2 * size))
            if inode != found.st_ino or array.nbytes != size // row_bytes * row_bytes:
                array = mapped[: size // row_bytes * row_bytes].view(dtype).reshape(_shape(size // row_bytes, columns))
                self._own[name] = found.st_ino, mapped, array
        return array

    def _empty(self, place: int, size: int) -> None:
        """Give the disk space of a region back. Its bytes are then zero."""
        with self._opened(_COMMON) as file:
            if _libc.fallocate(file, _PUNCH_HOLE, _offset(place), size) != 0:
                self._region(place)[:size] = 0  # this file system has no holes

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        file = os.open(f"{self._folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    def _allocate(self, file: int, start: int, size: int) -> None:
        """Allocate disk blocks before they are written: a write to a mapped hole on a full disk causes a SIGBUS."""
        with named_full_disk(self._folder, size):
            os.posix_fallocate(file, start, size)


def _offset(place: int) -> int:
    """Where a region begins in the common file."""
    return _PAGE_BYTES + place * REGION_BYTES

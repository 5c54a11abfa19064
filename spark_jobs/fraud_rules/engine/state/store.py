"""Finds the memory of a key group's cells, and guards it.

A view belongs to a key group at a version: the batch it has seen, and a digest of everything up to it. One that is not
at the version of the durable log (a task ran elsewhere, was repeated, or died half-way) is made anew from the log.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.arrays import Arrays, HeapArrays, MappedArrays
from fraud_rules.engine.state.grouping_state import Cell
from fraud_rules.errors import Stalled
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.file_lock import locked

_VERSION, _DIGEST, _OPEN, _SHAPE = range(4)
LAYOUT = 3
"""Raised when the arrays change their meaning: views of another layout are made anew."""

_LOCK_WAIT_S = 1_800.0


@dataclass(slots=True)
class KeyGroupView:
    """The cells of one key group by id, while its lock is held.

    `stamp` int64[4]: version and digest of the log it shows, 1 while it is being changed, and a count of the times when
    cells were removed or made anew, by which other processes know that theirs are gone.
    """

    stamp: NDArray[np.int64]
    folder: Path | None
    cells: dict[int, Cell] = field(default_factory=dict)
    shape: int = -1

    def shows(self, version: int, digest: int) -> bool:
        """Whether the view is whole and at this version of the log."""
        if self.shape != self.stamp[_SHAPE]:
            self.cells.clear()
            self.shape = int(self.stamp[_SHAPE])
        return bool(self.stamp[_OPEN] == 0 and self.stamp[_VERSION] == version and self.stamp[_DIGEST] == digest)

    def begin(self) -> None:
        """The view is about to change: until `commit` it shows nothing."""
        self.stamp[_OPEN] = 1

    def commit(self, version: int, digest: int) -> None:
        """The view is at this version."""
        self.stamp[_VERSION], self.stamp[_DIGEST] = version, digest
        self.stamp[_OPEN] = 0

    def arrays(self, cell_id: int) -> Arrays:
        """The arrays of a cell."""
        return HeapArrays() if self.folder is None else MappedArrays(self.folder / f"cell-{cell_id}")

    def remove(self, cell_id: int) -> None:
        """Let go of a cell."""
        self.cells.pop(cell_id, None)
        if self.folder is not None:
            shutil.rmtree(self.folder / f"cell-{cell_id}", ignore_errors=True)
        self._reshaped()

    def clear(self) -> None:
        """Let go of all cells."""
        self.cells.clear()
        if self.folder is not None:
            for path in self.folder.glob("cell-*"):
                shutil.rmtree(path, ignore_errors=True)
        self._reshaped()

    def _reshaped(self) -> None:
        self.stamp[_SHAPE] += 1
        self.shape = int(self.stamp[_SHAPE])


class ViewStore(Protocol):
    """The views of this process or host."""

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        """The view of a key group, nobody else's meanwhile."""


class HeapViews:
    """Views of this process only."""

    def __init__(self) -> None:
        self._views: dict[int, KeyGroupView] = {}

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        """See `ViewStore`."""
        view = self._views.get(key_group)
        if view is None:
            view = self._views[key_group] = KeyGroupView(np.zeros(4, dtype=np.int64), None)
        yield view


class MappedViews:
    """Views in files that all workers of the host map, each under a file lock.

    A row has a column for each field of the schema: the views of another schema are of no use, and are removed.
    """

    def __init__(self, folder: Path, schema: TransactionSchema) -> None:
        shape = hashlib.blake2b(repr(schema.fields).encode(), digest_size=6).hexdigest()
        self._folder = folder / f"layout-{LAYOUT}-{shape}"
        for other in folder.glob("layout-*"):
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)
        self._views: dict[int, KeyGroupView] = {}

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        """See `ViewStore`. The lock goes with the process that dies; its view is then found open and made anew."""
        folder = self._folder / f"key-group-{key_group}"
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock", _LOCK_WAIT_S, partial(_stalled, key_group), 0o600):
            view = self._views.get(key_group)
            if view is None:
                stamp = MappedArrays(folder).open("stamp", np.int64, 4, 0)
                view = self._views[key_group] = KeyGroupView(stamp, folder)
            yield view


def _stalled(key_group: int, pid: str) -> Stalled:
    return Stalled(f"process {pid} has held the view of key group {key_group} for {_LOCK_WAIT_S:g} s: does it hang?")

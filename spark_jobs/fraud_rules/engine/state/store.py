"""Locates and locks the views of key groups: the memory of their grouping states.

A view shows its key group at a version of the log, with a digest of the log up to that version. If the view differs
from the durable log (because a task ran elsewhere, was repeated, or died half-way), it is refreshed from the log.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.arrays import Arrays, HeapArrays, MappedArrays
from fraud_rules.engine.state.chunk_ages import ChunkAges
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.head import Head
from fraud_rules.engine.statelog import StateVersion
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.file_lock import FileLock
from fraud_rules.runtime.lock_wait import LockPatience, await_lock

_VERSION, _DIGEST, _OPEN, _SHAPE = range(4)
LAYOUT = 9
"""The version of the array layout. Increment it when arrays change their meaning: older views are then rebuilt."""

_STATE_PREFIX = "cell-"
_PATIENCE = LockPatience()


class KnownHead(NamedTuple):
    """The head after the last batch of this process, decoded and encoded, and the ages of its chunks (None: unknown).

    Only a head with the same bytes is this one, because another process can have run a batch meanwhile."""

    head: Head
    encoded: bytes
    ages: ChunkAges | None


@dataclass(slots=True)
class KeyGroupView:
    """The grouping states of one key group by id, while its lock is held.

    `stamp` int64[4]: version and digest of the log that the view shows, 1 during a change, and a counter. Each removal
    or rebuild of states increments the counter, so that other processes reopen theirs.
    """

    stamp: NDArray[np.int64]
    folder: Path | None
    states: dict[int, GroupingState] = field(default_factory=dict)
    shape: int = -1
    known_head: KnownHead | None = None

    def shows(self, version: int, digest: int) -> bool:
        """Whether the view is complete and at this version of the log."""
        if self.shape != self.stamp[_SHAPE]:
            self.states.clear()
            self.shape = int(self.stamp[_SHAPE])
        return bool(self.stamp[_OPEN] == 0 and self.stamp[_VERSION] == version and self.stamp[_DIGEST] == digest)

    @property
    def shown(self) -> StateVersion | None:
        """The version of the log that the view shows; None if the view is not complete."""
        if self.stamp[_OPEN]:
            return None
        return StateVersion(int(self.stamp[_VERSION]), int(self.stamp[_DIGEST]))

    def state_ids(self) -> set[int]:
        """The ids of the grouping states in the view."""
        if self.folder is None:
            return set(self.states)
        return {int(path.name.removeprefix(_STATE_PREFIX)) for path in self.folder.glob(f"{_STATE_PREFIX}*")}

    def begin_change(self) -> None:
        """Mark the view as invalid during a change, until `commit`."""
        self.stamp[_OPEN] = 1

    def commit(self, version: int, digest: int) -> None:
        """Mark the view as valid for this version."""
        self.stamp[_VERSION], self.stamp[_DIGEST] = version, digest
        self.stamp[_OPEN] = 0

    def arrays(self, state_id: int) -> Arrays:
        """The arrays of a grouping state."""
        return HeapArrays() if self.folder is None else MappedArrays(self.folder / f"{_STATE_PREFIX}{state_id}")

    def adopt(self, state_id: int, arrays: Path) -> bool:
        """Move the arrays of a grouping state from another folder of the same disk into the view. Returns False if this
        view has no folder, or if a task that died has moved the arrays."""
        if self.folder is None:
            return False
        self.remove(state_id)  # a task that died may have left it
        try:
            arrays.rename(self.folder / f"{_STATE_PREFIX}{state_id}")
        except FileNotFoundError:
            return False
        return True

    def remove(self, state_id: int) -> None:
        """Remove a grouping state."""
        self.states.pop(state_id, None)
        if self.folder is not None:
            shutil.rmtree(self.folder / f"{_STATE_PREFIX}{state_id}", ignore_errors=True)
        self._count_change()

    def clear(self) -> None:
        """Remove all grouping states."""
        self.states.clear()
        if self.folder is not None:
            for path in self.folder.glob(f"{_STATE_PREFIX}*"):
                shutil.rmtree(path, ignore_errors=True)
        self._count_change()

    def _count_change(self) -> None:
        self.stamp[_SHAPE] += 1
        self.shape = int(self.stamp[_SHAPE])


class ViewStore(Protocol):
    """Provides the views of a process or a host."""

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        """Open and lock the view of a key group."""


class HeapViews:
    """Views in the memory of this process."""

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

    A row has a column for each field of the schema, so the views of another schema are useless and are removed.
    """

    def __init__(self, folder: Path, schema: TransactionSchema, patience: LockPatience = _PATIENCE) -> None:
        self._patience = patience
        shape = hashlib.blake2b(repr(schema.fields).encode(), digest_size=6).hexdigest()
        self._folder = folder / f"layout-{LAYOUT}-{shape}"
        for other in folder.glob("layout-*"):
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)
        self._views: dict[int, KeyGroupView] = {}

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        """See `ViewStore`. The death of a process releases its lock. Its view is then still marked as changing, so the
        next holder rebuilds it. Raises Stalled if the process that holds the lock is suspended or hangs."""
        folder = self._folder / f"key-group-{key_group}"
        with _open_lock(folder) as lock:
            await_lock(lock, f"the view of key group {key_group}", self._patience)
            view = self._views.get(key_group)
            if view is None:
                stamp = MappedArrays(folder).open("stamp", np.int64, 4, 0)
                view = self._views[key_group] = KeyGroupView(stamp, folder)
            yield view


def _open_lock(folder: Path) -> FileLock:
    """The lock of a view's folder, which is created if it does not exist."""
    path, mode = folder / "lock", 0o600
    try:
        return FileLock(path, mode)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(path, mode)

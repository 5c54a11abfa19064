"""The progress of a batch's tasks: each task writes a small file to the checkpoint's folder after a second.

Only that folder is accessible to the driver and the workers of all hosts while a task runs, because Spark passes the
accumulators of a task on only when it has ended.
"""

from __future__ import annotations

import logging
import posixpath
import time
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import fs
from pyspark import TaskContext

from fraud_rules.stream.work import TasksProgress
from fraud_rules.stream.worker.spill import Spill

__all__ = ["TaskWork", "read_progress"]

_QUIET_S: Final = 1.0
_PREFIX: Final = "work-"

_log = logging.getLogger(__name__)


class _TaskRecord(msgspec.Struct, array_like=True):
    restored: int
    rows: int
    key_groups: int
    restores: bool
    fetched_bytes: int = 0


_decode = msgspec.json.Decoder(_TaskRecord).decode


class TaskWork:
    """The progress of one task that runs the engine, a `TaskProgress`. A failed write is logged and ignored."""

    def __init__(self, spill: Spill, batch_id: int) -> None:
        """`spill` gives the folder of the files."""
        self._spill = spill
        self._batch_id = batch_id
        self._fetched_bytes = self._restored = self._rows = self._key_groups = 0
        self._restores = False
        self._due_s = time.monotonic() + _QUIET_S

    def fetched(self, size_bytes: int) -> None:
        """Add bytes read from the topic of the state, see `TaskProgress`."""
        self._fetched_bytes += size_bytes
        self._restores = True
        self._report()

    def restored(self, events: int) -> None:
        """Add restored events, see `TaskProgress`."""
        self._restored += events
        self._restores = True
        self._report()

    def evaluated(self, rows: int) -> None:
        """Add evaluated rows, see `TaskProgress`."""
        self._rows += rows
        self._restores = False
        self._report()

    def key_group_done(self) -> None:
        """Count an evaluated key group."""
        self._key_groups += 1
        self._restores = False
        self._report()

    def _report(self) -> None:
        if time.monotonic() < self._due_s:
            return
        record = _TaskRecord(self._restored, self._rows, self._key_groups, self._restores, self._fetched_bytes)
        context = TaskContext.get()
        name = f"{_PREFIX}{0 if context is None else context.partitionId()}"
        try:
            system, root = self._spill.system()
            path = posixpath.join(root, str(self._batch_id), name)
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(path) as stream:
                stream.write(msgspec.json.encode(record))
        except (OSError, pa.ArrowException) as error:
            _log.warning("the progress of a task cannot be written: %s", error)
        self._due_s = time.monotonic() + _QUIET_S


def read_progress(spill: Spill, batch_id: int) -> TasksProgress:
    """What the tasks of a batch have written so far. A file that is being written counts with the next look."""
    try:
        system, root = spill.system()
        selector = fs.FileSelector(posixpath.join(root, str(batch_id)), allow_not_found=True)
        paths = [info.path for info in system.get_file_info(selector) if info.base_name.startswith(_PREFIX)]
        records = [record for path in paths if (record := _read(system, path)) is not None]
    except (OSError, pa.ArrowException):
        return TasksProgress()
    return TasksProgress(
        sum(each.restored for each in records),
        sum(each.rows for each in records),
        sum(each.key_groups for each in records),
        any(each.restores for each in records),
        sum(each.fetched_bytes for each in records),
    )


def _read(system: fs.FileSystem, path: str) -> _TaskRecord | None:
    try:
        with system.open_input_stream(path) as stream:
            return _decode(bytes(stream.read()))
    except (OSError, msgspec.DecodeError):
        return None

"""The plan of a checkpoint: which records each batch reads, and which batches are finished.

A batch is planned before it runs, so a start after a crash repeats the batch with the same records. The files have
the layout of Spark's structured streaming, so a release that plans its batches with Spark can continue with the folder.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Final

from fraud_rules.model.lost_records import Offsets
from fraud_rules.runtime.atomic_file import Durability
from fraud_rules.runtime.clock import now_ms
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import (
    COMMITS,
    INITIAL,
    METADATA,
    OFFSETS,
    batches_of,
    checksum_of,
    end_offsets,
    initial_offsets,
    known_query,
)

__all__ = ["PlanLog", "PlannedBatch"]

_KEPT: Final = 100
"""The number of the newest batches whose files the folder keeps."""

_DURABILITY: Final = Durability.NONE
"""A sync takes milliseconds, and each batch writes two files. After a power cut, the checks of a start find a cut-off
file, and the marker in Kafka tells whether the batch is written."""

_COMMITTED: Final = b'v1\n{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The records of a batch: from `starts` up to `ends`. A partition without a start begins at its first record."""

    batch_id: int
    starts: Offsets
    ends: Offsets


class PlanLog:
    """The files of a checkpoint's plan. Every method can raise CheckpointDamaged. One thread uses it."""

    def __init__(self, folder: Folder, query_id: str, initial: Offsets) -> None:
        self.query_id = query_id
        self._folder = folder
        offsets, commits = batches_of(folder, OFFSETS), batches_of(folder, COMMITS)
        self._committed = commits[-1] if commits else -1
        self._ends = end_offsets(folder, self._committed) if commits else initial
        self._unfinished = offsets[-1] if offsets and offsets[-1] > self._committed else None
        for log, batches in ((OFFSETS, offsets), (COMMITS, commits)):
            for batch_id in batches[:-_KEPT]:
                self._forget(log, batch_id)

    @classmethod
    def is_new(cls, folder: Folder) -> bool:
        """Whether the checkpoint has no plan yet, so that `open` needs the offsets of its first batch."""
        return initial_offsets(folder) is None

    @classmethod
    def open(cls, folder: Folder, initial: Offsets | None = None) -> PlanLog:
        """Open the plan of a checkpoint. `initial` are the offsets at which the first batch of a new plan starts."""
        query_id = known_query(folder)
        if query_id is None:
            query_id = str(uuid.uuid4())
            folder.create(METADATA, json.dumps({"id": query_id}).encode())
        known = initial_offsets(folder)
        if known is not None:
            return cls(folder, query_id, known)
        folder.create(INITIAL, b"\0v1\n" + _compact(initial or {}))
        return cls(folder, query_id, initial or {})

    def unfinished(self) -> PlannedBatch | None:
        """The planned batch that is not finished. None if all are."""
        if self._unfinished is None:
            return None
        return PlannedBatch(self._unfinished, self._ends, end_offsets(self._folder, self._unfinished))

    @property
    def ends(self) -> Offsets:
        """The end offsets of the last finished batch."""
        return self._ends

    def plan(self, ends: Offsets) -> PlannedBatch:
        """Record the next batch, and return the recorded one. Its ends are others than `ends` if another process of
        this detector has planned the batch already."""
        batch_id = self._committed + 1
        header = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms(), "conf": {}}
        plan = b"v1\n%b\n%b" % (_compact(header), _compact(ends))
        if not self._folder.create(f"{OFFSETS}/{batch_id}", plan, durability=_DURABILITY):
            ends = end_offsets(self._folder, batch_id)
        self._unfinished = batch_id
        return PlannedBatch(batch_id, self._ends, ends)

    def finish(self, batch: PlannedBatch) -> None:
        """Record that a batch is written, and delete the files of old batches."""
        self._folder.create(f"{COMMITS}/{batch.batch_id}", _COMMITTED, durability=_DURABILITY)
        self._committed, self._ends, self._unfinished = batch.batch_id, batch.ends, None
        if batch.batch_id >= _KEPT:
            for log in (OFFSETS, COMMITS):
                self._forget(log, batch.batch_id - _KEPT)

    def _forget(self, log: str, batch_id: int) -> None:
        name = f"{log}/{batch_id}"
        self._folder.delete(name)
        self._folder.delete(checksum_of(name))


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()

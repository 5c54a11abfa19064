"""One task of an evaluation: evaluates a share of the key groups for a day, from the archive to files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
import numpy as np

from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore, named_storage_errors
from fraud_rules.batch.reevaluation.basis import SavedState
from fraud_rules.batch.reevaluation.cuts import Cuts, PinnedTimeline
from fraud_rules.batch.reevaluation.daystore import DayStore, write_image
from fraud_rules.batch.reevaluation.evaluate import DayRun
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.batch.reevaluation.report import LATENESS_EDGES_MS
from fraud_rules.batch.reevaluation.warm_ups import AddedWarmUp, split_at
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import Day
from fraud_rules.model.log_entry import LogEntry
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

_SIZE = struct.Struct("<Q")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[AlertRecord]).decode


@dataclass(frozen=True, slots=True)
class DayWork:
    """The parameters of every task of a day's evaluation.

    `start` is an earlier day with its saved state, from which the evaluation continues; None for an empty state.
    `warm_ups` are those whose histories a batch added on this day.
    """

    archive: ArchiveStore
    day: Day
    files: tuple[FileEntry, ...]
    schema: TransactionSchema
    settings: DetectorSettings
    entries: tuple[LogEntry, ...]
    cuts: Cuts
    start: tuple[Day, SavedState] | None
    folder: ArchivePath
    detection_ms: int
    warm_ups: tuple[AddedWarmUp, ...] = ()

    def feed(self) -> DayFeed:
        """The day's transactions."""
        return DayFeed(self.archive, self.files, self.schema, self.cuts)


class PartAccount(msgspec.Struct, frozen=True):
    """The result of a task. Only the first task counts the transactions, because all tasks read the same ones.

    `out_of_order` counts the transactions that arrived after one with a later event time. `lateness`: see `DayResult`.
    """

    key_groups: tuple[int, ...]
    alerts: int
    transactions: int = 0
    out_of_order: int = 0
    lateness: tuple[int, ...] = (0,) * len(LATENESS_EDGES_MS)


def shares(key_groups: int, tasks: int) -> list[tuple[int, ...]]:
    """Distribute the key groups over tasks."""
    dealt = [tuple(range(first, key_groups, tasks)) for first in range(min(tasks, key_groups))]
    return [share for share in dealt if share]


def run_part(work: DayWork, key_groups: Sequence[int]) -> Iterator[PartAccount | None]:
    """Evaluate key groups, and write alerts and state to files in the work's folder.

    Yields None after each slice, as a sign of progress, and finally the account.
    """
    images = {} if work.start is None else DayStore(work.archive).images(*work.start, key_groups)
    timeline = PinnedTimeline(work.entries, work.cuts)
    run = DayRun(key_groups, timeline, work.schema, work.settings, images)
    del images
    tally = _Tally(counting=0 in key_groups, cuts=work.cuts)
    alerts = 0
    path = _alerts_path(work.folder, key_groups[0])
    with named_storage_errors(path), path.open("wb") as file:
        for rows, added in split_at(work.feed().slices(), work.warm_ups):
            tally.add(rows)
            histories = [each.histories(key_groups, work.archive, work.schema, work.settings) for each in added]
            alerts += _append(file, list(run.process(rows, work.detection_ms, histories)))
            yield None
    for key_group, image in run.images():
        write_image(work.folder, key_group, image)
    yield PartAccount(tuple(key_groups), alerts, tally.rows, tally.out_of_order, tuple(tally.lateness.tolist()))


def read_alerts(folder: ArchivePath, parts: Iterable[PartAccount]) -> Iterator[AlertRecord]:
    """Yield all alerts of the tasks. Only a portion is in memory at a time."""
    for part in parts:
        with _alerts_path(folder, part.key_groups[0]).open("rb") as file:
            while head := file.read(_SIZE.size):
                yield from _decode(file.read(_SIZE.unpack(head)[0]))


class _Tally:
    """Counts the day's transactions by lateness and order."""

    def __init__(self, *, counting: bool, cuts: Cuts) -> None:
        self._counting = counting
        self._cuts = cuts
        self.rows = 0
        self.out_of_order = 0
        self.lateness = np.zeros(len(LATENESS_EDGES_MS), np.int64)

    def add(self, rows: TransactionBatch) -> None:
        """Count a slice in the order of event time. A row is out of order if an earlier row arrived after it."""
        if not self._counting:
            return
        self.rows += len(rows)
        behind_ms = np.maximum(rows.append_ms - rows.columns[TIME_FIELD].values, 0)
        classes = np.searchsorted(LATENESS_EDGES_MS, behind_ms, side="right") - 1
        self.lateness += np.bincount(classes, minlength=len(LATENESS_EDGES_MS))
        arrived = self._cuts.batch_of(rows) * (1 << 42) + rows.append_ms % (1 << 42)
        reached = np.minimum.accumulate(arrived[::-1])[::-1]
        self.out_of_order += int((arrived[:-1] > reached[1:]).sum())


def _append(file: BinaryIO, alerts: list[AlertRecord]) -> int:
    if alerts:
        packed = _encode(alerts)
        file.write(_SIZE.pack(len(packed)))
        file.write(packed)
    return len(alerts)


def _alerts_path(folder: ArchivePath, key_group: int) -> ArchivePath:
    return folder / f"alerts-{key_group}"

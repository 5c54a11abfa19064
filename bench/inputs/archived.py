"""Makes archives for measurements: days of transactions in the format of the archive's job, from a seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.inputs.rulesets import Document, encoded
from fraud_rules.batch.archive.files import write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.nightly.log_files import write_log

FIRST = Day.parse("2026-10-05")
KEYS = 10_000
ROWS_A_FILE = 2_000_000
SHARE_LATE = 0.02
BATCHES_A_DAY = 20_000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class MadeArchive:
    """An archive of `days` days from FIRST on, with `rows` transactions each; `zipf` is the exponent of the keys'
    weights, None for uniform ones. 2% arrive up to 20 minutes late."""

    store: ArchiveStore
    schema: TransactionSchema
    settings: DetectorSettings

    @classmethod
    def make(
        cls, folder: Path, rules: Sequence[Document], rows: int, days: int = 1, zipf: float | None = None
    ) -> MadeArchive:
        """Write the archive."""
        config = Project.find().config
        made = cls(
            ArchiveStore(folder),
            TransactionSchema.load(config / "schema.yaml"),
            DetectorSettings.load(config / "detector.yaml"),
        )
        made._write(rules, rows, days, zipf)
        return made

    def _write(self, rules: Sequence[Document], rows: int, days: int, zipf: float | None) -> None:
        began = FIRST.start_ms
        records = [(began, text) for _, text in encoded(rules)]
        files: list[FileEntry] = [self._log(Table.RULES, records, b"")]
        batches: list[tuple[int, bytes]] = []
        topic = self.settings.topics.transactions
        for number in range(days):
            day = FIRST.plus(number)
            first = number * rows
            for start in range(0, rows, ROWS_A_FILE):
                batch = transactions(day, first + start, min(ROWS_A_FILE, rows - start), (start / rows, rows), zipf)
                files.append(write_transactions(self.store, day, batch, self.schema))
            for step in range(1, BATCHES_A_DAY + 1):
                end = first + rows * step // BATCHES_A_DAY
                at_ms = day.start_ms + DAY_MS * step // BATCHES_A_DAY
                batches.append((at_ms, _progress(len(batches), {topic: {"0": end}}, len(rules))))
        files.append(self._log(Table.PROGRESS, batches, self.settings.detector.encode(), days))
        ends = {topic: {"0": rows * days}}
        manifest = self.store.latest().with_batch(ends, BatchResult(tuple(files), 0, began))
        self.store.commit(manifest)
        self.store.commit(manifest.complete(FIRST.plus(days + 1).end_ms))

    def _log(self, table: Table, records: Sequence[tuple[int, bytes]], key: bytes, days: int = 1) -> FileEntry:
        placed = [(offset, at_ms, key, value) for offset, (at_ms, value) in enumerate(records)]
        return write_log(self.store, table, FIRST.plus(days - 1), placed)


def transactions(day: Day, first: int, count: int, part: tuple[float, int], zipf: float | None) -> TransactionBatch:
    """`count` transactions from offset `first` on; `part`: their start as a share of the day, and the day's count."""
    begins, whole = part
    rng = np.random.default_rng(first)
    arrival = day.start_ms + ((begins * whole + np.arange(count)) * (DAY_MS / whole)).astype(np.int64)
    late = rng.random(count) < SHARE_LATE
    event = np.maximum(arrival - np.where(late, rng.integers(0, 1_200_000, count), 0), day.start_ms)
    keys = _keys(rng, count, zipf)
    numbers = {
        "transactionId": first + np.arange(count, dtype=np.int64),
        "eventTime": event,
        "payeeId": keys % 1_000,
        "beneficiaryId": keys,
        "paymentAmount": rng.integers(100, 20_000, count),
    }
    columns = {name: Column(values, None, None) for name, values in numbers.items()}
    columns["paymentType"] = Column(rng.integers(0, 2, count), None, ("CSH", "CRD"))
    columns["ingestionTimestamp"] = Column(np.zeros(count, np.int64), np.zeros(count, np.bool_), None)
    place = first + np.arange(count, dtype=np.int64)
    return TransactionBatch(np.maximum(arrival, event) + 50, np.zeros(count, np.int32), place, columns)


def _keys(rng: np.random.Generator, count: int, zipf: float | None) -> Ints:
    if zipf is None:
        return rng.integers(0, KEYS, count)
    weights = 1 / np.arange(1, KEYS + 1) ** zipf
    reached = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(reached, rng.random(count)), KEYS - 1).astype(np.int64)


def _progress(number: int, ends: dict[str, dict[str, int]], rules: int) -> bytes:
    counts = dict.fromkeys(
        ["rows", "quarantined", "alerts", "shadowAlerts", "late", "duplicates", "rulesInForce", "retainedEvents"], 0
    )
    place = {"queryId": "made", "batchId": number, "endOffsets": ends, "rulesEnd": rules, "rulesRefused": []}
    return json.dumps(place | counts).encode()

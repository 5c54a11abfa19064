"""Makes days of progress records of a busy detector, as the archive's job writes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.batch.archive.files import write_parts
from fraud_rules.batch.archive.manifest import FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import DAY_MS, Day
from tests.support.nightly.log_files import log_table

PARTITIONS = 12
_PART = 8_192
_RULES = 10
_ENDS = ",".join(f'"{partition}":%d' for partition in range(PARTITIONS))
_RECORD = (
    '{"queryId":"6d0f3a3e-5d2c-4f0c-9c39-2f6f0f5f9f1a","batchId":%d,"endOffsets":{"TOPIC":{ENDS},"rules":{"0":RULES}},'
    '"rulesEnd":RULES,"rulesRefused":[],"rows":600,"quarantined":0,"tombstones":0,'
    '"alerts":1,"shadowAlerts":0,"late":2,"duplicates":0,"lag":0,"rulesInForce":RULES,"retainedEvents":2500000,'
    '"retainedBytes":400000000,"retainedMarks":1000,"watermark":%d,"newestAppendTime":%d,"previous":{"batchId":%d,'
    '"rows":600,"pinMs":1,"evaluateMs":25,"writeMs":12,"p50Ms":60,"p99Ms":90},"rebuilt":false,"attempt":null,'
    '"lateTransactions":2,"sinceStart":{"sinceMs":0,"rows":%d,"late":100,"quarantined":0},"lost":[],'
    '"viewCatchUps":0,"viewRebuilds":0,"viewsSinceStart":{"catchUps":0,"rebuilds":0},"warmUps":[],"cpuNs":1200,'
    '"ruleCpu":[]}'
).replace("ENDS", _ENDS, 1).replace("RULES", str(_RULES))  # fmt: skip


def progress_files(
    store: ArchiveStore, settings: DetectorSettings, day: Day, batches: int, first: int, rows: int, files: int
) -> Iterator[FileEntry]:
    """Write the records of a day in `files` files. The first batch has the number `first`. A batch reads about
    `rows` transactions from each of the partitions, which end at `(first + batches) * rows`."""
    steps = np.random.default_rng(day.number).integers(0, 2 * rows + 1, (batches, PARTITIONS))
    ends = first * rows + np.minimum(np.cumsum(steps, axis=0), batches * rows)
    ends[-1] = (first + batches) * rows
    for number in range(files):
        start, end = batches * number // files, batches * (number + 1) // files
        parts = (
            _part(settings, day, range(at, min(at + _PART, end)), batches, first, ends)
            for at in range(start, end, _PART)
        )
        yield write_parts(store, Table.PROGRESS, day, parts)


def _part(
    settings: DetectorSettings, day: Day, numbers: range, batches: int, first: int, ends: NDArray[np.int64]
) -> pa.Table:
    times = [day.start_ms + DAY_MS * number // batches for number in numbers]
    record, key = _RECORD.replace("TOPIC", settings.topics.transactions).encode(), settings.detector.encode()
    records = []
    for number, at_ms in zip(numbers, times, strict=True):
        batch = first + number
        value = record % (batch, *ends[number].tolist(), at_ms, at_ms, batch - 1, 600 * batch)
        records.append((batch, at_ms, key, value))
    return log_table(records)

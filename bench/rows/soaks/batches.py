"""Measures the evidence of the nights during a month of a detector that writes 20 batches a second.

A step is a day: its batches and a few transactions join the archive, small files are merged as the archive's job merges
them, the nightly job evaluates the day, and `due` looks for days with later data. Peak memory is that of the process
during each of these jobs.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import Figure, Rows, Scale
from bench.inputs.archived import FIRST, MadeArchive, transactions
from bench.inputs.progress import PARTITIONS, progress_files
from bench.inputs.rulesets import RULES_10
from bench.lab import Lab
from bench.rows.soaks.compressed import COMMON, TOLERATED, flat, run
from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.files import write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, Manifest, Table
from fraud_rules.batch.reevaluation.part import DayWork, PartAccount, run_part
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.batch.reevaluation.run import DayOptions, days_due, evaluate, prepare
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day
from fraud_rules.model.transaction import TransactionBatch

_BATCHES_A_DAY = 20 * 86_400
_ROWS_A_BATCH = 2
_TRANSACTIONS = 20_000
_ARCHIVE_RUNS = 24
_KEPT_DAYS = 40
_FAR_MS = 2**50
_PEAK = Path("/proc/self/clear_refs")
_RESET = "5"
"""Makes the kernel forget the peak memory of the process."""


@dataclass
class _Month:
    """An archive that grows by a day at each step, and the sizes of its last night."""

    made: MadeArchive
    batches: int
    sizes: dict[str, float] = field(default_factory=dict)

    def step(self, number: int) -> None:
        """Archive and evaluate a day."""
        day, first = FIRST.plus(number + 1), (number + 1) * self.batches
        self._archive(day, first)
        for name, job in (("merge", _merge), ("nightly", _nightly), ("due", _due)):
            _PEAK.write_text(_RESET)
            started = time.process_time()
            job(self.made, day)
            self.sizes |= {f"{name}_s": time.process_time() - started, f"{name}_mib": _peak_mib()}

    def _archive(self, day: Day, first: int) -> None:
        """Commit the files of a day of archive runs. Files of old days are removed, to bound the disk."""
        store, settings = self.made.store, self.made.settings
        files = [*progress_files(store, settings, day, self.batches, first, _ROWS_A_BATCH, _ARCHIVE_RUNS)]
        rows = _spread(transactions(day, 0, _TRANSACTIONS, (0.0, _TRANSACTIONS), None), first, self.batches)
        files.append(write_transactions(store, day, rows, self.made.schema))
        end = (first + self.batches) * _ROWS_A_BATCH
        ends = {settings.topics.transactions: {str(each): end for each in range(PARTITIONS)}}
        manifest = store.latest()
        manifest = manifest.with_batch(ends, BatchResult(tuple(files), 0))
        kept = [each for each in manifest.files if each.day > day.number - _KEPT_DAYS or each.table is Table.RULES]
        manifest = msgspec.structs.replace(manifest, files=tuple(kept))
        store.commit(manifest)
        store.commit(manifest.complete(day.plus(2).end_ms))
        self._clean(store.latest())

    def _clean(self, manifest: Manifest) -> None:
        known = {each.path for each in manifest.files}
        for path in Path(self.made.store.root).joinpath("data").rglob("*.parquet"):
            if self.made.store.relative(path) not in known:
                path.unlink()


def _spread(rows: TransactionBatch, first: int, batches: int) -> TransactionBatch:
    """Distribute the rows over the partitions and the offsets of a day."""
    step = batches * _ROWS_A_BATCH // len(rows)
    partition = (rows.offset % PARTITIONS).astype(rows.partition.dtype)
    return TransactionBatch(rows.append_ms, partition, first * _ROWS_A_BATCH + step * rows.offset, rows.columns)


def _merge(made: MadeArchive, day: Day) -> None:
    """Merge small files."""
    compact(made.store, made.store.latest(), made.schema, day.end_ms)


def _nightly(made: MadeArchive, day: Day) -> None:
    """Evaluate a day as the nightly job does, without Spark."""
    options = DayOptions(day, made.store, made.settings, made.schema)
    case = prepare(options, _FAR_MS)
    found, account = evaluate(case, _here, uuid.uuid4().hex)
    assert account.transactions == _TRANSACTIONS, f"{account.transactions} transactions evaluated"
    result = DayResult.empty(day, case.basis, None, 0, publishes=True)
    result = msgspec.structs.replace(result, transactions=account.transactions, published=len(found.live))
    options.store.save_result(result, b"")
    options.store.prune()


def _due(made: MadeArchive, day: Day) -> None:
    """Look for days with later data."""
    due = days_due(made.store, made.schema, made.settings, day.end_ms)
    assert not due, "a day is due without later data"


def _here(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
    return [account for part in parts for account in run_part(work, part) if account is not None]


def _peak_mib() -> float:
    """The peak memory of this process since the last reset."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def _measure(_: Lab | None, scale: Scale) -> Mapping[str, Any]:
    Project.find().var.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Project.find().var, prefix="soak-") as folder:
        made = MadeArchive.make(Path(folder), RULES_10, _TRANSACTIONS)
        _nightly(made, FIRST)
        month = _Month(made, scale.of(_BATCHES_A_DAY, _TRANSACTIONS))
        return run(scale.soak_minutes, month.step, lambda: month.sizes)


def _figures() -> tuple[Figure, ...]:
    found = list(COMMON)
    for name, title in (("merge", "merge of a day's files"), ("nightly", "nightly"), ("due", "`due`")):
        found += flat(f"{name}_mib", f"{title}, peak memory", "MiB")
        found += flat(f"{name}_s", f"{title}, CPU time", "s")
    return tuple(found)


ROWS = (
    Rows(
        "soak_batches",
        "Nights of a detector with 20 batches a second, day by day",
        f"A step is a day: {_BATCHES_A_DAY:,} batches in {_ARCHIVE_RUNS} archive files, with the ends of {PARTITIONS} "
        f"partitions each, and {_TRANSACTIONS:,} transactions, `rules10`. Then small files are merged, the nightly job "
        "evaluates the day (without Spark), and `due` looks for days with later data. Peak memory is that of the "
        f"process. The archive keeps {_KEPT_DAYS} days. Flat means: the mean of the last third is at most "
        f"{TOLERATED}% above that of the previous third.",
        _figures(),
        _measure,
        needs_broker=False,
        soak=True,
    ),
)

"""A restore drill: tests on a copy whether the state of a checkpoint can be restored, while the detector works.

The drill copies the files of the last finished batch, reads the copy through Spark's state reader, and builds each key
group's view from it, as a start does. It compares the digest of the copy with that of the original. The drill writes
nothing to the original and opens no producer, so it fences nothing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream.checkpoint import is_committed, read_live_progress
from fraud_rules.stream.worker.compression import decompress
from fraud_rules.stream.worker.state import HEAD, LOG

__all__ = ["DrillReport", "copy_batch", "drill"]

_VERSION = re.compile(r"\.?(\d+)_.*")
_TRIES = 3


class DrillReport(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a drill. `chunks` and `key_groups` were read from the copy. `cells` are the grouping states that
    were built from them."""

    batch_id: int
    key_groups: int
    chunks: int
    cells: int
    digest: str
    original_digest: str
    bytes_copied: int
    took_ms: int

    @property
    def right(self) -> bool:
        """Whether the copy equals the original."""
        return self.digest == self.original_digest


def drill(spark: SparkSession, checkpoint: Path, schema: TransactionSchema) -> DrillReport:
    """Copy, restore and compare the last finished batch, or a newer one if the detector purges it meanwhile.

    Raises CheckpointDamaged, StateDamaged.
    """
    folder, overtaken = DiskFolder(checkpoint), 0
    while True:
        batch = read_live_progress(folder).committed
        if batch is None:
            raise CheckpointDamaged(f"{checkpoint} has not finished a batch yet: there is nothing to restore")
        try:
            return _drill_batch(spark, checkpoint, batch, schema)
        except CheckpointDamaged:
            overtaken += 1
            if is_committed(folder, batch) or overtaken == _TRIES:
                raise


def _drill_batch(spark: SparkSession, checkpoint: Path, batch: int, schema: TransactionSchema) -> DrillReport:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fraud-drill-") as folder:
        copy = Path(folder) / "checkpoint"
        copied = copy_batch(checkpoint, copy, batch)
        original = _read_logs(spark, checkpoint, batch)  # read first, because the detector purges it soon
        restored = _read_logs(spark, copy, batch)
        return DrillReport(
            batch_id=batch,
            key_groups=len(restored),
            chunks=sum(len(log) for log in restored.values()) - len(restored),
            cells=sum(_restore(log, schema) for log in restored.values()),
            digest=_digest(restored),
            original_digest=_digest(original),
            bytes_copied=copied,
            took_ms=round((time.monotonic() - began_s) * 1_000),
        )


def copy_batch(checkpoint: Path, copy: Path, batch: int) -> int:
    """Copy the files of one finished batch: its logs, and the state up to its version. Return the copied bytes."""

    def unneeded(folder: str, names: list[str]) -> set[str]:
        unfinished = {name for name in names if ".tmp" in name}
        if Path(folder).parent.parent.name != "state":
            return unfinished
        versions = ((name, _VERSION.fullmatch(name)) for name in names)
        return unfinished | {name for name, version in versions if version is not None and int(version[1]) > batch + 1}

    try:
        shutil.copytree(checkpoint / "state", copy / "state", ignore=unneeded, copy_function=_copy_if_there)
        for name in ("metadata", f"offsets/{batch}", f"commits/{batch}"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint / name, copy / name)
    except (OSError, shutil.Error) as error:
        raise CheckpointDamaged(f"{checkpoint} cannot be copied: {' '.join(str(error).split())[:300]}") from error
    return sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file that the detector may purge meanwhile. If the file was needed, reading the copy fails."""
    with suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def _read_logs(spark: SparkSession, checkpoint: Path, batch: int) -> Mapping[int, Mapping[int, bytes]]:
    """Read each key group's log at a batch: the blobs of chunks and head, by id."""
    _ = spark.streams.active  # creates the coordinator that state stores need to open
    try:
        rows = (
            spark.read.format("statestore")
            .option("path", str(checkpoint))
            .option("batchId", batch)
            .option("stateVarName", LOG)
            .load()
            .selectExpr("key.key_group AS key_group", "user_map_key.id AS id", "user_map_value.blob AS blob")
            .collect()
        )
    except PySparkException as error:
        raise CheckpointDamaged(f"the state of batch {batch} in {checkpoint} cannot be read: {error}") from error
    logs: dict[int, dict[int, bytes]] = {}
    for row in rows:
        logs.setdefault(row["key_group"], {})[row["id"]] = decompress(bytes(row["blob"]))
    return logs


def _restore(blobs: Mapping[int, bytes], schema: TransactionSchema) -> int:
    """Build a key group's view from its log, as a start does. Return the number of its grouping states."""
    from fraud_rules.engine.state.journal import Journal
    from fraud_rules.engine.state.store import HeapViews

    log = MemoryStateLog()
    for identity, blob in blobs.items():
        if identity == HEAD:
            log.put_head(blob)
        else:
            log.put_chunk(identity, blob)
    with HeapViews().hold(0) as view:
        return len(Journal(schema, log, view).head.states)


def _digest(logs: Mapping[int, Mapping[int, bytes]]) -> str:
    digest = hashlib.sha256()
    for key_group in sorted(logs):
        for identity, blob in sorted(logs[key_group].items()):
            digest.update(f"{key_group} {identity} {len(blob)}\n".encode())
            digest.update(blob)
    return digest.hexdigest()

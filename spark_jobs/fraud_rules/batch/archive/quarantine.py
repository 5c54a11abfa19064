"""Reads the archived quarantine."""

from __future__ import annotations

from collections.abc import Iterator

from fraud_rules.batch.archive.columns import APPEND, OFFSET, PARTITION
from fraud_rules.batch.archive.files import open_parquet
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.codec.transactions.quarantine import QuarantinedRecord, decode_quarantined

_ROWS = 1_000
_COLUMNS = [PARTITION, OFFSET, APPEND, "key", "value", "headers"]


def archived_quarantine(store: ArchiveStore, since_ms: int = 0) -> Iterator[QuarantinedRecord]:
    """Yield the archived records that were quarantined at `since_ms` or later. Raises ArchiveDamaged."""
    files = sorted(store.latest().of(Table.QUARANTINE), key=lambda file: file.first_ms)
    for file in files:
        if file.last_ms < since_ms:
            continue
        with open_parquet(store, file) as parquet:
            for rows in parquet.iter_batches(_ROWS, columns=_COLUMNS):
                for row in rows.to_pylist():
                    time_ms = int(row[APPEND].timestamp() * 1_000 + 0.5)
                    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
                    if time_ms >= since_ms:
                        place = row[PARTITION], row[OFFSET]
                        yield decode_quarantined(*place, time_ms, row["key"], row["value"], headers)

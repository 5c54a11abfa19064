"""Files of the archive's logs, as the archive's job writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from fraud_rules.batch.archive.files import LOG_SCHEMA, write_file
from fraud_rules.batch.archive.manifest import FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.model.day import Day

LogRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None]
"""Offset, append time in ms, key and value."""


def log_table(records: Iterable[LogRecord]) -> pa.Table:
    """The records of a partition as a table."""
    offsets, times_ms, keys, values = zip(*records, strict=True)
    stamps = pa.array(times_ms, pa.int64()).view(LOG_SCHEMA.types[2])
    places = [pa.array([0] * len(offsets), pa.int32()), pa.array(offsets, pa.int64())]
    texts = [pa.array(each, pa.binary()) for each in (keys, values)]
    return pa.Table.from_arrays([*places, stamps, stamps, *texts], schema=LOG_SCHEMA)


def write_log(store: ArchiveStore, table: Table, day: Day, records: Sequence[LogRecord]) -> FileEntry:
    """Write a file with the records of a partition."""
    return write_file(store, table, day, log_table(records))

"""Writes the archive's files sorted and atomically, and reads them with verified page checksums.

Transactions are sorted by (event time, append time, partition, offset), so that a reader can stream a day in the order
of time. The other logs are sorted by (partition, offset).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fraud_rules.batch.archive.columns import APPEND, OFFSET, PARTITION, TIME_TYPE, batch_of, table_of
from fraud_rules.batch.archive.manifest import FileEntry, Table
from fraud_rules.batch.archive.place import put
from fraud_rules.batch.archive.store import ArchiveStore, named_storage_errors, unreachable_named
from fraud_rules.errors import ArchiveDamaged
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.atomic_file import replaced_file

__all__ = [
    "LOG_SCHEMA",
    "QUARANTINE_SCHEMA",
    "log_schema",
    "open_parquet",
    "read_log",
    "read_transactions",
    "sorted_by_time",
    "write_file",
]

ROW_GROUP: Final = 131_072
LOG_TIME: Final = "eventTime"
LOG_SCHEMA: Final = pa.schema(
    [
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (APPEND, TIME_TYPE),
        (LOG_TIME, TIME_TYPE),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""The columns of all logs except transactions: the unchanged record. Without an event time, the append time counts."""

QUARANTINE_SCHEMA: Final = LOG_SCHEMA.append(
    pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
)
"""The columns of the quarantine. The headers hold the origin of a record and the reason."""


def log_schema(table: Table) -> pa.Schema:
    """The columns of a log's files."""
    return QUARANTINE_SCHEMA if table is Table.QUARANTINE else LOG_SCHEMA


def sorted_by_time(batch: TransactionBatch) -> TransactionBatch:
    """Sort rows by (event time, append time, partition, offset)."""
    times = batch.columns[TIME_FIELD].values
    return batch.take(np.lexsort((batch.offset, batch.partition, batch.append_ms, times)))


def write_file(store: ArchiveStore, table: Table, day: Day, rows: pa.Table) -> FileEntry:
    """Write sorted rows as one file. Raises StorageFull."""
    path = store.new_path(table, str(day))
    has_times = table in (Table.TRANSACTIONS, Table.IMPORTED)
    with named_storage_errors(path):
        if isinstance(path, Path):
            with replaced_file(path) as partial:
                _write_parquet(rows, partial, has_times=has_times)
        else:
            content = io.BytesIO()
            _write_parquet(rows, content, has_times=has_times)
            put(path, content.getvalue())
        size = path.stat().st_size
    times = _ints(rows.column(TIME_FIELD))
    offsets, partitions = _ints(rows.column(OFFSET)), rows.column(PARTITION).to_numpy()
    ends = {str(p): int(offsets[partitions == p].max()) + 1 for p in np.unique(partitions).tolist()}
    return FileEntry(
        table,
        day.number,
        store.relative(path),
        rows.num_rows,
        size,
        int(times.min()),
        int(times.max()),
        ends,
    )


def _write_parquet(rows: pa.Table, place: Path | io.BytesIO, *, has_times: bool) -> None:
    pq.write_table(
        rows,
        place,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=1,
        write_page_checksum=True,
        store_decimal_as_integer=True,
        write_statistics=[TIME_FIELD] if has_times else False,
    )


def write_transactions(store: ArchiveStore, day: Day, batch: TransactionBatch, schema: TransactionSchema) -> FileEntry:
    """Sort and write the transactions of one day."""
    return write_file(store, Table.TRANSACTIONS, day, table_of(sorted_by_time(batch), schema))


@contextmanager
def open_parquet(store: ArchiveStore, entry: FileEntry, strings: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open the file of an entry. The columns in `strings` are read as dictionaries.

    Raises ArchiveDamaged if the file is missing, has another size, or is corrupt, and ArchiveUnreachable.
    """
    path = store.root / entry.path
    try:
        with unreachable_named(path), ExitStack() as stack:
            size = path.stat().st_size
            if size != entry.size:
                raise ArchiveDamaged(f"{path} has {size} bytes, expected {entry.size}: restore it from a copy")
            # Parquet's reader asks for whole column chunks, so a cache would only fetch what nobody reads.
            source = path if isinstance(path, Path) else stack.enter_context(path.open("rb", cache_type="none"))
            present = set(pq.read_schema(source).names).intersection(strings)
            yield stack.enter_context(
                pq.ParquetFile(source, read_dictionary=sorted(present), page_checksum_verification=True)
            )
    except FileNotFoundError as error:
        raise ArchiveDamaged(
            f"{path} is missing ({entry.rows} rows of {entry.table}): restore it from a copy"
        ) from error
    except (OSError, pa.ArrowException) as error:
        said = " ".join(str(error).split())[:200]
        raise ArchiveDamaged(f"{path} is corrupt ({said}): restore it from a copy") from error


def string_fields(schema: TransactionSchema) -> list[str]:
    """The names of the fields that are strings."""
    return [field.name for field in schema.fields if field.type is FieldType.STRING]


def read_transactions(store: ArchiveStore, entry: FileEntry, schema: TransactionSchema) -> TransactionBatch:
    """Read all transactions of a file."""
    with open_parquet(store, entry, string_fields(schema)) as file:
        return batch_of(file.read(), schema, str(Path(entry.path).name))


def read_log(store: ArchiveStore, entries: Sequence[FileEntry], columns: Sequence[str] | None = None) -> pa.Table:
    """Read the records of a log's files, by (partition, offset)."""
    tables = []
    for entry in entries:
        with open_parquet(store, entry) as file:
            tables.append(file.read(columns=None if columns is None else [*columns, PARTITION, OFFSET]))
    if not tables:
        return LOG_SCHEMA.empty_table()
    return pa.concat_tables(tables).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def _ints(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.int64()).to_numpy()

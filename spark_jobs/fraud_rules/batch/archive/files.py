"""Writes the archive's files sorted and atomically, and reads them with verified page checksums.

Transactions are sorted by (event time, append time, partition, offset), so that a reader can stream a day in the order
of time. The other logs are sorted by (partition, offset).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fraud_rules.batch.archive.columns import APPEND, OFFSET, PARTITION, PLACE, TIME_TYPE, batch_of, table_of
from fraud_rules.batch.archive.manifest import FileEntry, Table
from fraud_rules.batch.archive.place import put
from fraud_rules.batch.archive.store import ArchiveStore, named_storage_errors, unreachable_named
from fraud_rules.errors import ArchiveDamaged
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.atomic_file import replaced_file

ROW_GROUP: Final = 131_072
_GROUP_BYTES: Final = 33_554_432
_NO_TIME: Final = 1 << 62
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
    return write_parts(store, table, day, [rows])


def write_parts(store: ArchiveStore, table: Table, day: Day, parts: Iterable[pa.Table]) -> FileEntry:
    """Write sorted rows, which come in parts, as one file. Raises StorageFull."""
    path, extent = store.new_path(table, str(day)), _Extent()
    has_times = table in (Table.TRANSACTIONS, Table.IMPORTED)
    with named_storage_errors(path):
        if isinstance(path, Path):
            with replaced_file(path) as partial:
                _write_parquet(extent.watched(_grouped(parts)), partial, has_times=has_times)
        else:
            content = io.BytesIO()
            _write_parquet(extent.watched(_grouped(parts)), content, has_times=has_times)
            put(path, content.getvalue())
        size = path.stat().st_size
    return FileEntry(
        table,
        day.number,
        store.relative(path),
        extent.rows,
        size,
        extent.first_ms,
        extent.last_ms,
        {str(partition): end for partition, end in sorted(extent.ends.items())},
    )


@dataclass(slots=True)
class _Extent:
    """The number of rows, the first and last time, and the end offsets by partition of the parts that it watches."""

    rows: int = 0
    first_ms: int = _NO_TIME
    last_ms: int = -_NO_TIME
    ends: dict[int, int] = field(default_factory=dict)

    def watched(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the same parts."""
        for part in parts:
            times = _ints(part.column(TIME_FIELD))
            self.rows += part.num_rows
            self.first_ms, self.last_ms = min(self.first_ms, int(times.min())), max(self.last_ms, int(times.max()))
            offsets, partitions = _ints(part.column(OFFSET)), part.column(PARTITION).to_numpy()
            for each in np.unique(partitions).tolist():
                self.ends[each] = max(self.ends.get(each, 0), int(offsets[partitions == each].max()) + 1)
            yield part


def _grouped(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join small parts to row groups."""
    held: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        held.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if rows >= ROW_GROUP or size >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def _write_parquet(parts: Iterator[pa.Table], place: Path | io.BytesIO, *, has_times: bool) -> None:
    first = next(parts)
    with pq.ParquetWriter(
        place,
        first.schema,
        compression="zstd",
        compression_level=1,
        write_page_checksum=True,
        store_decimal_as_integer=True,
        write_statistics=[TIME_FIELD] if has_times else False,
    ) as writer:
        for part in chain([first], parts):
            writer.write_table(part, row_group_size=ROW_GROUP)


def write_transactions(store: ArchiveStore, day: Day, batch: TransactionBatch, schema: TransactionSchema) -> FileEntry:
    """Sort and write the transactions of one day."""
    return write_file(store, Table.TRANSACTIONS, day, table_of(sorted_by_time(batch), schema))


@contextmanager
def open_parquet(
    store: ArchiveStore, entry: FileEntry, strings: Sequence[str] = (), buffer_bytes: int = 0
) -> Iterator[pq.ParquetFile]:
    """Open the file of an entry. The columns in `strings` are read as dictionaries. With `buffer_bytes`, a column is
    read in pieces of this size, otherwise a row group's whole column at once.

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
                pq.ParquetFile(
                    source,
                    read_dictionary=sorted(present),
                    buffer_size=buffer_bytes,
                    page_checksum_verification=True,
                )
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


def transactions_by_group(
    store: ArchiveStore, entry: FileEntry, schema: TransactionSchema
) -> Iterator[TransactionBatch]:
    """Read all transactions of a file, one row group at a time."""
    with open_parquet(store, entry, string_fields(schema)) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=[*PLACE, *schema.names])
            yield batch_of(table, schema, entry.path)


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

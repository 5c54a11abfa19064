"""Erases a person from the archive: rewrites the files with rows that name the id.

Each file is replaced in a commit of its own, so an interrupted run can be repeated. The old files stay for an hour, for
running readers, like those of a compaction. The manifest names the days that lost rows, because their evaluation gives
other alerts than the detector did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fraud_rules.batch.archive.files import open_parquet, write_parts
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore, named_storage_errors
from fraud_rules.model.day import Day

_ROWS: Final = 131_072
_REPORTS: Final = ("reevaluation/*/result.json", "whatif/*/result.json")
_BY_FIELD: Final = (Table.TRANSACTIONS, Table.IMPORTED)
_BY_DOCUMENT: Final = (Table.ALERTS, Table.SHADOW_ALERTS, Table.CORRECTIONS, Table.QUARANTINE)


def erase_person(store: ArchiveStore, fields: Sequence[str], value: str, now_ms: int) -> dict[str, int]:
    """Remove the rows in which one of the fields has this value, and return their number by table.

    A record that is no JSON is removed if it contains the id as a word. Raises ArchiveBusy, ArchiveDamaged,
    StorageFull, ArchiveUnreachable.
    """
    erased = {table.value: 0 for table in (*_BY_FIELD, *_BY_DOCUMENT)}
    with store.writing():
        manifest = store.latest()
        for entry in manifest.files:
            if entry.table.value in erased:
                manifest, rows = _erase(store, manifest, entry, _keeping(entry.table, fields, value), now_ms)
                erased[entry.table.value] += rows
    return erased


def reports_with(store: ArchiveStore, value: str) -> list[str]:
    """The folders of the re-evaluations and what-ifs whose result has the id as a word, relative to the archive. Raises
    ArchiveDamaged, ArchiveUnreachable.
    """
    word = _word(value)
    with named_storage_errors(store.root):
        found = [path for form in _REPORTS for path in store.root.glob(form) if word.search(path.read_bytes())]
    return sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in found)


def _word(value: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![0-9A-Za-z])" + re.escape(value.encode()) + rb"(?![0-9A-Za-z])")


def _erase(
    store: ArchiveStore, manifest: Manifest, entry: FileEntry, keeping: Callable[[pa.Table], Any], now_ms: int
) -> tuple[Manifest, int]:
    kept = sum(part.num_rows for part in _parts(store, entry, keeping))
    if kept == entry.rows:
        return manifest, 0
    written = []
    if kept:
        file = write_parts(store, entry.table, Day(entry.day), _parts(store, entry, keeping))
        written.append(msgspec.structs.replace(file, ends=entry.ends))  # the erased offsets stay archived
    replaced = (
        manifest.with_replaced([entry], written, now_ms)
        if entry.table is Table.QUARANTINE  # no result of a day depends on it
        else manifest.with_erased(entry, written, now_ms)
    )
    store.commit(replaced)
    return replaced, entry.rows - kept


def _parts(store: ArchiveStore, entry: FileEntry, keeping: Callable[[pa.Table], Any]) -> Iterator[pa.Table]:
    """Yield the rows that stay, without empty parts."""
    with open_parquet(store, entry) as file:
        for batch in file.iter_batches(_ROWS):
            table = pa.Table.from_batches([batch])
            kept = table.filter(keeping(table))
            if kept.num_rows:
                yield kept


def _keeping(table: Table, fields: Sequence[str], value: str) -> Callable[[pa.Table], Any]:
    """The function that returns whether each row stays."""
    if table in _BY_FIELD:
        return lambda rows: _without_value(rows, fields, value)
    word = _word(value)
    return lambda rows: pa.array(
        [not _names(content, word, fields, value) for content in rows.column("value").to_pylist()]
    )


def _without_value(rows: pa.Table, fields: Sequence[str], value: str) -> Any:
    kept = pa.array([True] * rows.num_rows)
    for field in fields:
        if field in rows.column_names:
            same = pc.equal(pc.cast(rows.column(field), pa.string()), value)
            kept = pc.and_(kept, pc.invert(pc.fill_null(same, False)))
    return kept


def _names(content: bytes | None, word: re.Pattern[bytes], fields: Sequence[str], value: str) -> bool:
    if content is None or not word.search(content):
        return False
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return True
    return any(str(found) == value for found in _values(document, fields))


def _values(document: Any, fields: Sequence[str]) -> Iterator[Any]:
    """The values of the members with these names."""
    if isinstance(document, dict):
        for name, member in document.items():
            if name in fields and not isinstance(member, dict | list):
                yield member
            else:
                yield from _values(member, fields)
    elif isinstance(document, list):
        for each in document:
            yield from _values(each, fields)

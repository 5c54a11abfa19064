"""Archive files and manifests without servers: exact round trips, few files, and a named error for each damage."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fraud_rules.batch.archive.columns import batch_of, table_of
from fraud_rules.batch.archive.compaction import MOST_SMALL, compact
from fraud_rules.batch.archive.files import read_transactions, write_transactions
from fraud_rules.batch.archive.lag import used_share
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore, named_storage_errors, write_whole
from fraud_rules.errors import ArchiveBusy, ArchiveDamaged, ConfigError, InputInvalid, StorageFull
from fraud_rules.model.day import Day
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.conformance import load_schema

DAY = Day.parse("2026-11-18")
SCHEMA = load_schema("nullable")
DEFAULT = load_schema("default")


def rows(
    count: int, first: int = 0, amounts: tuple[int, ...] = (1, -1, 10**18 - 1, -(10**18) + 1, 0)
) -> TransactionBatch:
    """Rows of the nullable schema: every third value of a nullable field is null."""
    place = first + np.arange(count, dtype=np.int64)
    columns = {}
    for field in SCHEMA.fields:
        values = place.copy()
        if field.type is FieldType.TIMESTAMP:
            values = DAY.start_ms + place
        if field.type is FieldType.DECIMAL:
            values = np.array([amounts[i % len(amounts)] for i in range(count)], dtype=np.int64)
        if field.type is FieldType.BOOLEAN:
            values = place % 2
        valid = (place % 3 != 0) if field.nullable else None
        dictionary = None
        if field.type is FieldType.STRING:
            values, dictionary = place % 2, ("CSH", "ü€")
        columns[field.name] = Column(values if valid is None else np.where(valid, values, 0), valid, dictionary)
    return TransactionBatch(DAY.start_ms + place, (place % 2).astype(np.int32), place, columns)


def plain(batch: TransactionBatch, schema: TransactionSchema = SCHEMA) -> list[dict[str, object]]:
    return [batch.row(i, schema) for i in range(len(batch))]


def site(folder: Path, files: int, each: int = 5) -> tuple[ArchiveStore, Manifest]:
    store = ArchiveStore(folder)
    entries = tuple(write_transactions(store, DAY, rows(each, i * each), SCHEMA) for i in range(files))
    manifest = Manifest().with_batch({}, BatchResult(entries, 0))
    store.commit(manifest)
    return store, manifest


def everything(store: ArchiveStore, manifest: Manifest) -> list[object]:
    found = [read_transactions(store, entry, SCHEMA) for entry in manifest.of(Table.TRANSACTIONS, DAY)]
    return sorted(int(row["transactionId"]) for row in plain(TransactionBatch.concat(found)))  # type: ignore[call-overload]


def test_rows_survive_a_round_trip() -> None:
    batch = rows(11)
    again = batch_of(table_of(batch, SCHEMA), SCHEMA)
    assert plain(again) == plain(batch)
    assert (again.append_ms == batch.append_ms).all() and (again.partition == batch.partition).all()
    assert not len(batch_of(table_of(rows(0), SCHEMA), SCHEMA))


def test_the_texts_of_files_from_before_a_normalization_are_normalized() -> None:
    plainer = TransactionSchema(tuple(replace(field, normalize=()) for field in SCHEMA.fields))
    batch = rows(8)
    texts = replace(batch.columns["paymentType"], dictionary=("cafe\u0301 ", "café"))
    table = table_of(replace(batch, columns={**batch.columns, "paymentType": texts}), plainer)
    assert {row.get("paymentType") for row in plain(batch_of(table, plainer), plainer)} == {None, "cafe\u0301 ", "café"}
    assert {row.get("paymentType") for row in plain(batch_of(table, SCHEMA))} == {None, "café"}


def test_a_field_declared_since_is_null_and_one_declared_otherwise_is_refused() -> None:
    table = table_of(rows(4), SCHEMA)
    wider = TransactionSchema((*SCHEMA.fields, Field("channel", FieldType.STRING, nullable=True)))
    assert plain(batch_of(table, wider), wider) == plain(rows(4))
    changed = TransactionSchema(tuple(
        replace(field, type=FieldType.LONG, precision=0, scale=0) if field.name == "paymentAmount" else field
        for field in SCHEMA.fields
    ))  # fmt: skip
    with pytest.raises(ConfigError, match="paymentAmount as decimal"):
        batch_of(table, changed)


def test_files_do_not_grow_in_number_with_the_runs(tmp_path: Path) -> None:
    store, manifest = site(tmp_path, 3)
    most = 0
    for run in range(40):
        entry = write_transactions(store, DAY, rows(5, 100 + 5 * run), SCHEMA)
        manifest = manifest.with_batch({}, BatchResult((entry,), 0))
        store.commit(manifest)
        manifest = compact(store, manifest, SCHEMA, run)
        manifest, gone = manifest.without_retired(before_ms=run + 1)
        for path in gone:
            (store.root / path).unlink()
        most = max(most, len(list(store.root.rglob("*.parquet"))))
    assert most <= MOST_SMALL
    assert everything(store, manifest) == [*range(15), *range(100, 300)]
    assert len(list((store.root / "manifests").iterdir())) <= 21


def test_a_commit_that_is_repeated_because_its_answer_was_lost_finds_its_own_manifest(tmp_path: Path) -> None:
    store, manifest = site(tmp_path, 1)
    store.commit(manifest.complete(5))
    store.commit(manifest.complete(5))
    assert store.latest() == manifest.complete(5)


def test_only_one_of_two_writers_commits(tmp_path: Path) -> None:
    store, manifest = site(tmp_path, 1)
    store.commit(manifest.complete(5))
    with pytest.raises(ArchiveBusy):
        store.commit(manifest.complete(6))
    assert store.latest().complete_until_ms == 5
    with store.writing(), pytest.raises(ArchiveBusy), store.writing():
        pass


def spoil(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
        return
    if how == "short":
        content = content[:-7]
    elif how == "flipped":
        content[len(content) // 4] ^= 0xFF
    else:
        content = bytearray(len(content))
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["missing", "short", "flipped", "zeros"])
def test_an_altered_file_is_named(tmp_path: Path, how: str) -> None:
    store = ArchiveStore(tmp_path)
    entry = write_transactions(store, DAY, rows(500), SCHEMA)
    spoil(store.root / entry.path, how)
    with pytest.raises(ArchiveDamaged, match="restore it from a copy"):
        read_transactions(store, entry, SCHEMA)


def test_files_of_killed_runs_are_removed_after_a_day(tmp_path: Path) -> None:
    store, manifest = site(tmp_path, 1)
    orphan = store.root / write_transactions(store, DAY, rows(3), SCHEMA).path
    assert store.sweep(manifest) == 0
    os.utime(orphan, (0, 0))
    os.utime(store.root / manifest.files[0].path, (0, 0))
    assert store.sweep(manifest) == 1
    assert everything(store, manifest) == list(range(5))


def test_a_full_disk_is_named_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, b"before")
    with pytest.raises(StorageFull, match="free some"), named_storage_errors(path):
        raise OSError(errno.ENOSPC, "no space")
    assert path.read_bytes() == b"before" and [each.name for each in tmp_path.iterdir()] == ["result.json"]


def test_the_archive_says_how_much_of_retention_has_passed() -> None:
    manifest = replace_ends(Manifest().complete(1_000))
    assert used_share(manifest, {"a": 1_000, "b": None}, 1_500) == {"a": 0.5}


def replace_ends(manifest: Manifest) -> Manifest:
    return manifest.with_batch({"a": {"0": 1}, "b": {"0": 1}}, BatchResult((), 0))


@pytest.mark.parametrize(
    ("known", "kept", "expected"),
    [
        ({}, {0: 0}, {"0": 0}),
        ({}, {0: 7, 1: 0}, {"0": 7, "1": 0}),
        ({"0": 0}, {0: 500, 1: 3}, {"0": 0, "1": 3}),
        ({"0": 3, "1": 3}, {0: 0, 1: 3}, {"0": 0, "1": 3}),
    ],
    ids=[
        "an aborted first record",
        "removed records",
        "retention after the beginning",
        "the first record of a release",
    ],
)
def test_a_manifest_keeps_the_first_offset_that_kafka_had(
    known: dict[str, int], kept: dict[int, int], expected: dict[str, int]
) -> None:
    before = Manifest(starts={"rules": known, "alerts": {"0": 9}})
    after = before.with_batch({}, BatchResult((), 0), {"rules": kept})
    assert after.starts == {"rules": expected, "alerts": {"0": 9}}


def test_an_entry_has_the_offsets_of_its_rows(tmp_path: Path) -> None:
    entry = write_transactions(ArchiveStore(tmp_path), DAY, rows(10), SCHEMA)
    assert (entry.first_ms, entry.last_ms) == (DAY.start_ms, DAY.start_ms + 9)
    assert entry.ends == {"0": 9, "1": 10}
    assert isinstance(entry, FileEntry) and entry.rows == 10


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "20261118x"])
def test_an_invalid_day_is_named(text: str) -> None:
    with pytest.raises(InputInvalid):
        Day.parse(text)


@pytest.mark.parametrize("place", ["gs://bucket/archive", "hdfs://h/archive"])
def test_an_archive_must_be_a_folder_or_in_s3(place: str) -> None:
    with pytest.raises(ConfigError, match=rf"{place}: .* mount, or s3://BUCKET/PREFIX"):
        ArchiveStore.at(place)


@pytest.mark.parametrize("mode", [None, 0o755, 0o700])
def test_other_users_of_the_host_cannot_read_an_archive(tmp_path: Path, mode: int | None) -> None:
    store = ArchiveStore(tmp_path / "archive")
    if mode is not None:
        store.root.mkdir(mode=mode)
    with store.writing():
        assert store.root.stat().st_mode & 0o777 == (0o750 if mode is None else mode & 0o770)

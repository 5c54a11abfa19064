"""Files of past transactions in the archive: exact in every format, imported once, enough for a what-if."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fraud_rules.batch.archive import importing
from fraud_rules.batch.archive.files import read_transactions
from fraud_rules.batch.archive.importing import import_file
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.quarantine import archived_quarantine
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.whatif.run import WhatIfQuery, last_day, what_if
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import HistoryRefused, InputInvalid
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from tests.support.processes.fraud_command import fraud
from tests.support.records.payments import sample_payment
from tests.support.rules import SCHEMA

SETTINGS = DetectorSettings()
DAY = Day.parse("2018-04-01")
NOW_MS = Day.parse("2026-11-20").start_ms
RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(20),(10)"
ROWS: list[dict[str, Any]] = [
    sample_payment(
        2**62 + number,
        DAY.end_ms + (number - 5) * 60_000 + 7,
        payeeId=1 + number % 2,
        beneficiaryId=2,
        paymentType='C"S,H' if number % 3 else "CRD",
        paymentAmount=Decimal(1000 + number) / 100,
    )
    for number in range(10)
]


def as_json_lines(path: Path) -> Path:
    lines = [json.dumps({**row, "paymentAmount": str(row["paymentAmount"]), "more": [1]}) for row in ROWS]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def as_csv(path: Path) -> Path:
    names = ["paymentAmount", "note", "transactionId", "eventTime", "payerId", "beneficiaryId", "paymentType"]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        for row in ROWS:
            when = datetime.fromtimestamp(row["eventTime"] // 1_000, UTC) + timedelta(milliseconds=7)
            writer.writerow({**row, "payerId": row["payeeId"], "note": "a\nb", "eventTime": when.isoformat()})
    return path


def as_plain_csv(path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(row.values()) for row in ROWS])
    return path


def as_parquet(path: Path) -> Path:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    times = pa.array([each * 1_000 + 999 for each in columns["eventTime"]], pa.timestamp("us", "Europe/Berlin"))
    table = pa.table({**columns, "eventTime": times, "unknown": [None] * len(ROWS)})
    table = table.set_column(4, "paymentType", table.column("paymentType").dictionary_encode())
    pq.write_table(table.append_column("ingestionTimestamp", pa.nulls(len(ROWS), pa.timestamp("ns"))), path)
    return path


def as_parquet_of_floats(path: Path) -> Path:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    amounts = pa.array([float(each) for each in columns["paymentAmount"]], pa.float64())
    pq.write_table(pa.table({**columns, "paymentAmount": amounts}), path, row_group_size=3)
    return path


def imported_rows(store: ArchiveStore) -> list[dict[str, Any]]:
    files = store.latest().of(Table.IMPORTED)
    batch = TransactionBatch.concat([read_transactions(store, file, SCHEMA) for file in files])
    rows = [{n: v for n, v in batch.row(i, SCHEMA).items() if v is not None} for i in range(len(batch))]
    return sorted(rows, key=lambda row: row["transactionId"])


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (as_json_lines, "a.jsonl"),
        (as_csv, "a.csv"),
        (as_plain_csv, "a.CSV"),
        (as_parquet, "a.parquet"),
        (as_parquet_of_floats, "b.parquet"),
    ],
)
def test_every_format_gives_the_same_rows(write: Any, name: str, tmp_path: Path) -> None:
    store = ArchiveStore(tmp_path / "archive")
    result = import_file(write(tmp_path / name), store, SCHEMA, SETTINGS, NOW_MS)
    assert (result.transactions, result.rejected, result.days) == (10, {}, ["2018-04-01", "2018-04-02"])
    assert imported_rows(store) == ROWS


def test_a_file_is_imported_once_under_any_name(tmp_path: Path) -> None:
    store = ArchiveStore(tmp_path / "archive")
    import_file(as_json_lines(tmp_path / "a.jsonl"), store, SCHEMA, SETTINGS, NOW_MS)
    again = import_file(as_json_lines(tmp_path / "b.json"), store, SCHEMA, SETTINGS, NOW_MS)
    assert (again.known, again.transactions) == (True, 10)
    assert len(imported_rows(store)) == 10


def test_an_unreadable_record_goes_to_the_archived_quarantine(tmp_path: Path) -> None:
    store, path = ArchiveStore(tmp_path / "archive"), tmp_path / "a.jsonl"
    good = json.dumps({**ROWS[0], "paymentAmount": 1}).encode()
    path.write_bytes(b"\n".join([b"{", good, b"\xff", b'{"transactionId":1}', b"[" * 9_000, good[:-2]]))
    with pytest.raises(HistoryRefused, match="5 of 6 records are unreadable"):
        import_file(path, store, SCHEMA, SETTINGS, NOW_MS)
    assert (store.latest().version, list(store.root.rglob("*.parquet"))) == (0, [])
    result = import_file(path, store, SCHEMA, SETTINGS, NOW_MS, most_rejected=0.9)
    assert result.transactions == 1
    assert sum(result.rejected.values()) == 5
    assert result.rejected_at["invalid_utf8"].startswith("a.jsonl line 3: ")
    aside = list(archived_quarantine(store))
    assert [each.detail.partition(":")[0] for each in aside] == [f"line {number}" for number in (1, 3, 4, 5, 6)]
    assert [(each.position, each.source) for each in aside[:2]] == [("-1:0", "a.jsonl--1@0"), ("-1:2", "a.jsonl--1@2")]
    assert [each.raw for each in aside][1] == b"\xff"
    assert {each.reason for each in aside} == set(result.rejected)


FOREIGN = json.dumps({"tx_id": 7, **{name: str(value) for name, value in ROWS[0].items() if name != "transactionId"}})
ALIASED = TransactionSchema(
    tuple(replace(each, aliases=("tx_id",)) if each.name == "transactionId" else each for each in SCHEMA.fields)
)


def with_numbers(line: str) -> str:
    return line.replace('"1"', "1").replace('"2"', "2").replace(f'"{ROWS[0]["eventTime"]}"', str(ROWS[0]["eventTime"]))


def test_a_wholly_refused_file_is_not_imported_whatever_the_limit(tmp_path: Path) -> None:
    store, path = ArchiveStore(tmp_path / "archive"), tmp_path / "a.jsonl"
    path.write_text(with_numbers(FOREIGN))
    for _ in range(2):
        with pytest.raises(HistoryRefused, match=r"1 of 1 records .*missing_field:transactionId \(a\.jsonl line 1"):
            import_file(path, store, SCHEMA, SETTINGS, NOW_MS, most_rejected=1.0)
    result = import_file(path, store, ALIASED, SETTINGS, NOW_MS)
    assert (result.transactions, result.rejected, result.known) == (1, {}, False)


def test_another_schema_imports_the_refused_records_and_no_other_one_twice(tmp_path: Path) -> None:
    store, path = ArchiveStore(tmp_path / "archive"), as_json_lines(tmp_path / "a.jsonl")
    import_file(as_parquet(tmp_path / "before.parquet"), store, SCHEMA, SETTINGS, NOW_MS)
    path.write_text("{}\n" + with_numbers(FOREIGN) + "\n" + path.read_text())
    first = import_file(path, store, SCHEMA, SETTINGS, NOW_MS, most_rejected=0.5)
    assert (first.transactions, first.rejected) == (10, {"missing_field:transactionId": 2})
    assert import_file(path, store, SCHEMA, SETTINGS, NOW_MS).known
    second = import_file(path, store, ALIASED, SETTINGS, NOW_MS, most_rejected=0.5)
    assert (second.transactions, second.rejected, second.known) == (1, {"missing_field:transactionId": 1}, False)
    assert len(imported_rows(store)) == 21
    again = import_file(path, store, ALIASED, SETTINGS, NOW_MS)
    assert (again.known, again.transactions, again.rejected) == (True, 11, {"missing_field:transactionId": 1})
    later = import_file(as_csv(tmp_path / "later.csv"), store, ALIASED, SETTINGS, NOW_MS)
    offsets = [
        offset for file in store.latest().of(Table.IMPORTED) for offset in read_transactions(store, file, SCHEMA).offset
    ]
    assert (later.transactions, len(offsets), len(set(offsets))) == (10, 31, 31), "each record has its own place"


def test_a_dry_run_prints_the_first_payments_and_imports_nothing(tmp_path: Path) -> None:
    path, archive = as_csv(tmp_path / "a.csv"), tmp_path / "archive"
    done = fraud("archive", "import", "--dry-run", str(path), "--archive", str(archive))
    assert (done.exit_code, archive.exists()) == (0, False), done
    out = done.out.splitlines()
    assert out[0].endswith("10 of 10 records are readable, 2018-04-01T23:55:00.007Z to 2018-04-02T00:04:00.007Z")
    first = f"  line 2: transactionId={2**62} eventTime=2018-04-01T23:55:00.007Z payeeId=1 beneficiaryId=2 "
    assert out[1].startswith(first + "paymentType='CRD' paymentAmount=10.00")
    assert len(out) == 6


def test_a_failed_import_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK_RECORDS", 2)
    store, path = ArchiveStore(tmp_path / "archive"), as_parquet(tmp_path / "a.parquet")
    damaged = bytearray(path.read_bytes())
    damaged[4:40] = bytes(36)
    path.write_bytes(damaged)
    with pytest.raises(InputInvalid, match=r"a\.parquet cannot be read"):
        import_file(path, store, SCHEMA, SETTINGS, NOW_MS)
    assert store.latest().version == 0
    for name in ("missing.csv", "a.xls"):
        with pytest.raises(InputInvalid, match=name):
            import_file(tmp_path / name, store, SCHEMA, SETTINGS, NOW_MS)


def test_small_chunks_make_few_files_and_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK_RECORDS", 1)
    many = [{**row, "eventTime": DAY.start_ms + number} for number, row in enumerate(ROWS)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({**row, "paymentAmount": 1}) for row in many))
    store = ArchiveStore(tmp_path / "archive")
    import_file(path, store, SCHEMA, SETTINGS, NOW_MS)
    assert len(store.latest().of(Table.IMPORTED)) == 1
    assert [row["transactionId"] for row in imported_rows(store)] == [row["transactionId"] for row in ROWS]


def test_a_what_if_needs_no_stream(tmp_path: Path) -> None:
    """Each of two payees pays about ten five times in eight minutes: more than 20 from the second payment on."""
    archive, draft = tmp_path / "archive", tmp_path / "draft.txt"
    draft.write_text(RULE)
    done = fraud("archive", "import", str(as_csv(tmp_path / "a.csv")), "--archive", str(archive))
    assert (done.exit_code, "10 transactions of 2 days, 2018-04-01 to 2018-04-02" in done.out) == (0, True), done
    store = ArchiveStore(archive)
    last = last_day(store)
    result = what_if(WhatIfQuery(str(draft), DAY, last, processes=1), store, SCHEMA, SETTINGS)
    assert (last, result.transactions, result.fires) == (DAY.plus(1), 10, 8)

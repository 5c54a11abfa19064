"""The erasure of a person from the files of the archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_rules.batch.archive.erasing import erase_person, reports_with
from fraud_rules.batch.archive.files import read_log, read_transactions, write_transactions
from fraud_rules.batch.archive.manifest import FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.basis import Basis
from fraud_rules.batch.reevaluation.daystore import DayStore, write_image
from fraud_rules.errors import DayBusy
from fraud_rules.model.day import Day
from tests.support.nightly.log_files import write_log
from tests.support.records.decoded import decoded
from tests.support.records.payments import payment_record
from tests.support.rules import SCHEMA

FIRST, SECOND, THIRD = (Day.parse(f"2026-11-{day}") for day in (20, 21, 22))
FIELDS = ("payeeId", "beneficiaryId")


def payments(store: ArchiveStore, day: Day, *pairs: tuple[int, int]) -> FileEntry:
    """A file with a payment for each payer and beneficiary."""
    records = [
        payment_record(at, day.start_ms, payeeId=payer, beneficiaryId=other, paymentAmount=4711)
        for at, (payer, other) in enumerate(pairs)
    ]
    return write_transactions(store, day, decoded(records, [day.start_ms] * len(records)), SCHEMA)


def log(store: ArchiveStore, table: Table, *values: bytes) -> FileEntry:
    return write_log(store, table, FIRST, [(offset, 1, b"", value) for offset, value in enumerate(values)])


def alert(**key: int) -> bytes:
    return json.dumps({"key": key, "triggeringValue": "4711"}).encode()


@pytest.fixture
def store(tmp_path: Path) -> ArchiveStore:
    store = ArchiveStore(tmp_path / "archive")
    files = (
        payments(store, FIRST, (4711, 1), (1, 4711), (1, 2)),
        payments(store, SECOND, (1, 2)),
        payments(store, THIRD, (4711, 4711)),
        log(store, Table.ALERTS, alert(payeeId=4711), alert(payeeId=47110), alert(payeeId=1)),
        log(store, Table.QUARANTINE, b"payeeId=4711;", b"payeeId=14711;", b'{"payeeId": 4711, '),
        log(store, Table.RULES, b"4711"),
    )
    store.commit(msgspec.structs.replace(store.latest(), version=1, files=files))
    return store


def test_the_files_with_the_person_are_rewritten_and_the_others_stay(store: ArchiveStore) -> None:
    before = {file.path for file in store.latest().files}
    erased = erase_person(store, FIELDS, "4711", 5)
    assert {table: rows for table, rows in erased.items() if rows} == {"transactions": 3, "alerts": 1, "quarantine": 2}
    manifest = store.latest()
    (first,), (second,) = manifest.of(Table.TRANSACTIONS, FIRST), manifest.of(Table.TRANSACTIONS, SECOND)
    assert (first.rows, first.ends) == (1, {"0": 3}), "the offsets of erased rows stay archived"
    assert read_transactions(store, first, SCHEMA).columns["payeeId"].values.tolist() == [1]
    assert second.path in before and not manifest.of(Table.TRANSACTIONS, THIRD)
    assert read_log(store, manifest.of(Table.ALERTS)).column("value").to_pylist() == [
        alert(payeeId=47110), alert(payeeId=1)
    ]  # fmt: skip
    assert read_log(store, manifest.of(Table.QUARANTINE)).column("value").to_pylist() == [b"payeeId=14711;"]
    assert {each.path for each in manifest.retired} == before - {file.path for file in manifest.files}
    assert {each.at_ms for each in manifest.retired} == {5}
    assert manifest.erased_days(FIRST, THIRD) == [FIRST, THIRD]
    assert manifest.erased_days(SECOND, SECOND) == []
    assert manifest.with_replaced([], [], 6).erased == manifest.erased, "later versions know the days too"


def test_a_repeated_erasure_changes_nothing(store: ArchiveStore) -> None:
    erase_person(store, FIELDS, "4711", 5)
    version = store.latest().version
    assert not any(erase_person(store, FIELDS, "4711", 6).values())
    assert store.latest().version == version


def test_an_interrupted_erasure_is_finished_by_the_next_one(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, commits = ArchiveStore.commit, []

    def commit_once(self: ArchiveStore, manifest: Any) -> None:
        if commits:
            raise KeyboardInterrupt
        commits.append(commit(self, manifest))

    monkeypatch.setattr(ArchiveStore, "commit", commit_once)
    with pytest.raises(KeyboardInterrupt):
        erase_person(store, FIELDS, "4711", 5)
    monkeypatch.undo()
    assert {table: rows for table, rows in erase_person(store, FIELDS, "4711", 6).items() if rows} == {
        "transactions": 1, "alerts": 1, "quarantine": 2
    }  # fmt: skip


def test_the_states_from_a_day_on_are_deleted_unless_a_run_evaluates_the_day(store: ArchiveStore) -> None:
    states = DayStore(store)
    for day in (FIRST, SECOND, THIRD):
        folder = states.new_folder(day, "a")
        write_image(folder, 0, b"4711")
        states.keep_state(day, folder, Basis(8, 0, {}))
    with states.exclusive(THIRD), pytest.raises(DayBusy, match=str(THIRD)):
        states.drop_states(SECOND)
    assert states.drop_states(SECOND) == [THIRD], "the second day was done before"
    assert states.drop_states(SECOND) == []
    assert [states.state(day) is None for day in (FIRST, SECOND, THIRD)] == [False, True, True]
    assert [path.parent.parent.name for path in states.root.glob("*/run-*/*")] == [f"day={FIRST}"]


def test_the_reports_that_keep_the_id_are_named(store: ArchiveStore) -> None:
    for name, content in (
        ("reevaluation/day=2026-11-20", '{"key":{"payeeId":4711}}'),
        ("reevaluation/day=2026-11-21", '{"key":{"payeeId":14711}}'),
        ("whatif/20261120-rule-1", '{"key":{"payeeId":"4711"}}'),
    ):
        (store.root / name).mkdir(parents=True)
        (store.root / name / "result.json").write_bytes(content.encode())
    assert reports_with(store, "4711") == ["reevaluation/day=2026-11-20", "whatif/20261120-rule-1"]

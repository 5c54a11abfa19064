"""The parts of the archive from which a new Kafka is filled."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fraud_rules.batch.archive.files import write_transactions
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.restoring import archived_rules, archived_transactions
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.errors import InputInvalid
from fraud_rules.model.day import Day
from tests.support.nightly.log_files import write_log
from tests.support.processes.fraud_command import fraud
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA

FIRST, SECOND = Day.parse("2026-11-20"), Day.parse("2026-11-21")


@pytest.fixture
def store(tmp_path: Path) -> ArchiveStore:
    store = ArchiveStore(tmp_path / "archive")
    files = [
        write_log(store, Table.RULES, SECOND, [(4, 1, None, b"later"), (7, 1, b"2", None)]),
        write_log(store, Table.RULES, FIRST, [(0, 1, b"1", b"first"), (2, 1, b"control", b"second")]),
    ]
    for day in (FIRST, SECOND):
        record = (
            b'{"transactionId":1,"eventTime":%d,"payeeId":1,"beneficiaryId":1,"paymentType":"CSH","paymentAmount":1}'
            % day.start_ms
        )
        files.append(write_transactions(store, day, decoded([record], [day.start_ms]), SCHEMA))
    store.commit(msgspec.structs.replace(store.latest(), version=1, files=tuple(files)))
    return store


def test_the_rule_log_is_read_in_its_order_without_tombstones(store: ArchiveStore) -> None:
    assert archived_rules(store) == [(b"1", b"first"), (b"control", b"second"), (None, b"later")]


def test_transactions_are_chosen_by_event_day(store: ArchiveStore, tmp_path: Path) -> None:
    days = [path.parent.name for path in archived_transactions(store, tmp_path)]
    assert days == [f"day={FIRST}", f"day={SECOND}"]
    assert [path.parent.name for path in archived_transactions(store, tmp_path, SECOND)] == [f"day={SECOND}"]
    with pytest.raises(InputInvalid, match="no transactions from 2026-11-22 on"):
        archived_transactions(store, tmp_path, Day.parse("2026-11-22"))


def test_an_archive_without_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="no archived rules"):
        archived_rules(ArchiveStore(tmp_path))
    with pytest.raises(InputInvalid, match="no transactions"):
        archived_transactions(ArchiveStore(tmp_path), tmp_path)


@pytest.mark.parametrize("arguments", [[], ["a.csv", "--archive", "x"], ["a.csv", "--since", "2026-11-20"]])
def test_a_load_needs_files_or_an_archive(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_rules.kafka.reachable.require_broker", lambda kafka: None)
    done = fraud("streams", "load", *arguments)
    assert done.exit_code == InputInvalid.exit_code
    assert "either files, or --archive" in done.err

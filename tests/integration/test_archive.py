"""The archive through a real broker and real Spark: exact, once, complete, and of few files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fraud_rules.archive.files import read_log, read_transactions
from fraud_rules.archive.manifest import Table
from fraud_rules.day import Day
from fraud_rules.project import Project
from fraud_rules.schema import TransactionSchema
from fraud_rules.transaction import TransactionBatch
from tests.conftest import OwnTopics
from tests.nightly.jobs import archive_of, archived, run_job
from tests.running_detector import Installation
from tests.timed_topics import Logs

pytestmark = pytest.mark.integration

DAY = Day.parse("2026-11-18")
RULE = b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"


def transaction(number: int, at_ms: int, amount: str = "1.10", **fields: object) -> bytes:
    plain = {
        "transactionId": number,
        "eventTime": at_ms,
        "payeeId": number % 3,
        "beneficiaryId": 1,
        "paymentType": "CSH",
    }
    return json.dumps({**plain, **fields}).encode()[:-1] + b', "paymentAmount": ' + amount.encode() + b"}"


def rows_of(installation: Installation, day: Day, schema: TransactionSchema) -> dict[int, dict[str, object]]:
    store = archive_of(installation)
    files = store.latest().of(Table.TRANSACTIONS, day)
    batch = TransactionBatch.concat([read_transactions(store, file, schema) for file in files])
    rows = [batch.row(i, schema) for i in range(len(batch))]
    ids = [row["transactionId"] for row in rows]
    assert len(ids) == len(set(ids)), "a transaction is archived twice"
    return {int(str(row["transactionId"])): row for row in rows}


def test_what_the_logs_gain_is_archived_once(topics: OwnTopics, project: Project, tmp_path: Path) -> None:
    installation = Installation.make(tmp_path, project, topics)
    schema = TransactionSchema.load(installation.schema)
    logs = Logs(topics)
    logs.append_rule(RULE, 0)
    amounts = ["0.01", "9999999999999999.99", "-3", "1e3"]
    for number in range(40):
        logs.append(transaction(number, DAY.start_ms + number, amounts[number % 4]), 0, number % 2)
    logs.append(b'{"transactionId": 99, "paymentAmount": 6.005}', 0)
    logs.append(transaction(100, DAY.end_ms), 0)
    logs.flush()

    first = archived(installation)
    assert (first["transactions"], first["refused"], first["days"]) == (41, 1, ["2026-11-18", "2026-11-19"])
    rows = rows_of(installation, DAY, schema)
    assert sorted(rows) == list(range(40))
    assert [str(rows[number]["paymentAmount"]) for number in range(4)] == [
        "0.01", "9999999999999999.99", "-3.00", "1000.00",
    ]  # fmt: skip
    store = archive_of(installation)
    rules = read_log(store, store.latest().of(Table.RULES))
    assert rules.column("value").to_pylist() == [RULE]

    # A late row of a day archived before, a field declared since; and Spark's checkpoint is lost meanwhile.
    shutil.rmtree(store.root / "checkpoint")
    wider = tmp_path / "wider.yaml"
    wider.write_text(installation.schema.read_text() + "  - name: channel\n    type: string\n    nullable: true\n")
    logs.append(transaction(41, DAY.start_ms, channel="app"), 0)
    logs.flush()
    second = archived(installation, schema=wider)
    assert (second["transactions"], second["days"]) == (1, ["2026-11-18"])
    rows = rows_of(installation, DAY, TransactionSchema.load(wider))
    assert sorted(rows) == [*range(40), 41]
    assert rows[41]["channel"] == "app" and "channel" not in rows[3]

    third = archived(installation)
    assert (third["transactions"], third["files"]) == (0, second["files"])
    assert third["completeUntilMs"] > second["completeUntilMs"]


def test_a_damaged_archive_is_named(topics: OwnTopics, project: Project, tmp_path: Path) -> None:
    installation = Installation.make(tmp_path, project, topics)
    manifests = archive_of(installation).root / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "0000000007.json").write_text("{")
    code, _, err = run_job("archive.py", installation)
    assert code == 21
    assert "ArchiveDamaged" in err

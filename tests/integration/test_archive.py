"""The archive through a real broker and real Spark: exact, once, complete, and of few files.

The job on a full disk is long: `unit/batch/test_archive_files` fills a disk with the same writes.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from fraud_rules.batch.archive.files import read_log, read_transactions, write_transactions
from fraud_rules.batch.archive.lag import readable_until
from fraud_rules.batch.archive.manifest import BatchResult, Manifest, Table
from fraud_rules.batch.archive.quarantine import archived_quarantine
from fraud_rules.batch.entity.rows import EntityQuery, EntityReader
from fraud_rules.batch.reevaluation.chain import check_archived
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.batch.warm_up.sources import find_past
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayNotArchived
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import topic_ids
from fraud_rules.kafka.writer import BatchWriter
from fraud_rules.logs.quarantine import read_quarantine
from fraud_rules.model.day import Day
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import WarmUpRequest
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.records import quarantine_records
from fraud_rules.stream.worker.wire import UnreadableRecord
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import remove_records
from tests.support.kafka.timed_topics import Logs
from tests.support.nightly.jobs import JobsInTurn, archive_of
from tests.support.processes.running_detector import Installation
from tests.support.small_disk import small_disk

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


def test_new_records_of_the_logs_are_archived_once(
    topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics)
    schema = TransactionSchema.load(installation.schema)
    logs, names = Logs(topics), topics.names
    with open_transaction(topics, names.rules, names.transactions):  # its record is aborted, but has an offset
        pass
    logs.append_rule(RULE, 0)
    amounts = ["0.01", "9999999999999999.99", "-3", "1e3"]
    for number in range(40):
        logs.append(transaction(number, DAY.start_ms + number, amounts[number % 4]), 0, number % 2)
    logs.append(b'{"transactionId": 99, "paymentAmount": 6.005}', 0)
    logs.append(transaction(100, DAY.end_ms), 0)
    logs.flush()

    refused = [
        UnreadableRecord(0, 40, 7, "missing_field", "eventTime", b"\x00\xff"),
        UnreadableRecord(1, 3, 9, "empty", "", b""),
    ]
    writer = BatchWriter(topics.kafka, f"{topics.prefix}quarantine")
    writer.open()
    writer.write(quarantine_records(refused, topics.names, 1_000))
    await_settled(topics.kafka, [topics.names.quarantine])

    first = jobs.archive(installation)
    assert archive_of(installation).latest().topic_ids.items() >= topic_ids(topics.kafka, [topics.names.rules]).items()
    assert (first["transactions"], first["refused"], first["days"]) == (41, 1, ["2026-11-18", "2026-11-19"])
    rows = rows_of(installation, DAY, schema)
    assert sorted(rows) == list(range(40))
    assert [str(rows[number]["paymentAmount"]) for number in range(4)] == [
        "0.01", "9999999999999999.99", "-3.00", "1000.00",
    ]  # fmt: skip
    store = archive_of(installation)
    rules = read_log(store, store.latest().of(Table.RULES))
    (version,) = rules.column("_offset").to_pylist()
    assert (rules.column("value").to_pylist(), version > 0) == ([RULE], True)
    logs_of_archive = ArchivedLogs(store, store.latest(), schema, installation.settings)
    assert [each.version for each in logs_of_archive.entries()] == [version], "no beginning is missing"
    assert [store.latest().starts[name] for name in (names.rules, names.transactions)] == [{"0": 0}, {"0": 0, "1": 0}]
    quarantined = list(archived_quarantine(store))
    assert quarantined == list(read_quarantine(topics.kafka, topics.names.quarantine))
    assert [(each.reason, each.raw) for each in quarantined] == [("missing_field", b"\x00\xff"), ("empty", b"")]

    # A late row belongs to an archived day, and the schema has a new field.
    wider = tmp_path / "wider.yaml"
    wider.write_text(installation.schema.read_text() + "  - name: channel\n    type: string\n    nullable: true\n")
    logs.append(transaction(41, DAY.start_ms, channel="app"), 0)
    logs.flush()
    second = jobs.archive(installation, schema=wider)
    assert (second["transactions"], second["days"]) == (1, ["2026-11-18"])
    rows = rows_of(installation, DAY, TransactionSchema.load(wider))
    assert sorted(rows) == [*range(40), 41]
    assert rows[41]["channel"] == "app" and "channel" not in rows[3]

    # An archive of a release without quarantine starts with the first quarantine record.
    known = store.latest()
    ends = {topic: places for topic, places in known.ends.items() if topic != topics.names.quarantine}
    files = tuple(file for file in known.files if file.table is not Table.QUARANTINE)
    store.commit(msgspec.structs.replace(known, version=known.version + 1, ends=ends, files=files))
    third = jobs.archive(installation)
    assert (third["transactions"], third["files"]) == (0, second["files"])
    assert third["completeUntilMs"] > second["completeUntilMs"]
    assert list(archived_quarantine(store)) == quarantined


def test_a_damaged_archive_is_named(topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path) -> None:
    installation = Installation.make(tmp_path, project, topics)
    manifests = archive_of(installation).root / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "0000000007.json").write_text("{")
    code, _, err = jobs.run("archive", installation)
    assert code == 21
    assert "ArchiveDamaged" in err


def test_records_that_retention_removed_are_named_and_can_be_skipped(
    topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics)
    logs = Logs(topics)
    for number in range(3):
        logs.append(transaction(number, DAY.start_ms + number), 0)
    logs.flush()
    assert jobs.archive(installation)["transactions"] == 3
    for number in range(3, 8):
        logs.append(transaction(number, DAY.start_ms + number), 0)
    logs.flush()
    remove_records(topics, topics.names.transactions, 5)
    code, _, err = jobs.run("archive", installation)
    assert (code, "ArchiveBehind: retention has removed the records 3 to 5" in err) == (23, True), err[-500:]
    assert jobs.archive(installation, "--accept-loss")["transactions"] == 3
    assert sorted(rows_of(installation, DAY, TransactionSchema.load(installation.schema))) == [0, 1, 2, 5, 6, 7]


def test_an_archive_of_another_kafka_is_refused(
    topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics)
    store = archive_of(installation)
    known = {topics.names.transactions: {"0": 7}}
    store.commit(msgspec.structs.replace(store.latest(), version=1, ends=known))
    code, _, err = jobs.run("archive", installation)
    assert (code, "ArchiveForeign" in err) == (40, True), err[-500:]
    assert store.latest().version == 1


def test_an_archive_of_a_topic_that_was_created_again_is_refused(
    topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    """The new topic has as many records as the archive, so that only its id tells it from the archived one."""
    installation = Installation.make(tmp_path, project, topics)
    schema, settings = TransactionSchema.load(installation.schema), DetectorSettings(topics=topics.names)
    name, store = topics.names.transactions, archive_of(installation)
    logs = Logs(topics)
    logs.append(transaction(0, DAY.start_ms), 0)
    logs.flush()
    earlier = decode_transactions(
        RawTransactions.of([transaction(3, DAY.start_ms)], [0], [0], [DAY.start_ms]), schema, RecordLimits()
    ).batch
    result = BatchResult((write_transactions(store, DAY, earlier, schema),), 0)
    store.commit(Manifest().with_batch({name: {"0": 1}}, result))
    store.commit(store.latest().with_topics({name: "AAAAAAAAAAAAAAAAAAAAAA"}))
    code, _, err = jobs.run("archive", installation)
    assert (code, f"ArchiveForeign: {name} was created again" in err) == (40, True), err[-500:]
    assert store.latest().version == 2

    request = WarmUpRequest(0, 1, ("payeeId",), 0, DAY.end_ms, 0, 0)
    reader = EntityReader(topics.kafka, store, schema, settings)
    assert "was created again" in find_past(request, topics.kafka, settings, store.latest()).fault
    assert ids_of(reader.read(EntityQuery("payeeId", 0, 0)).batch) == [0, 3]
    store.commit(store.latest().with_topics(topic_ids(topics.kafka, [name])))
    assert not find_past(request, topics.kafka, settings, store.latest()).fault
    assert ids_of(reader.read(EntityQuery("payeeId", 0, 0)).batch) == [3], "the archive has the offset of the other one"


def ids_of(batch: TransactionBatch) -> list[int]:
    return sorted(batch.columns["transactionId"].values.tolist())


@pytest.mark.long
def test_a_full_disk_is_named_and_loses_nothing(
    topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics)
    count = 20_000
    logs = Logs(topics)
    for number in range(count):
        logs.append(transaction(number, DAY.start_ms + number, f"{number * 7919 % 99_991}.17"), 0, number % 2)
    logs.flush()
    with small_disk(archive_of(installation).root, "200k") as enlarge:
        code, _, err = jobs.run("archive", installation)
        assert (code, "StorageFull" in err) == (31, True), err[-2000:]
        assert archive_of(installation).latest().transactions == 0
        enlarge()
        assert jobs.archive(installation)["transactions"] == count
        assert len(rows_of(installation, DAY, TransactionSchema.load(installation.schema))) == count


def test_the_archive_calls_no_time_complete_behind_an_open_transaction(topics: OwnTopics) -> None:
    name = topics.names.transactions
    logs = Logs(topics)
    logs.append(transaction(0, DAY.start_ms), 0)
    logs.flush()
    started_ms = now_ms()
    assert readable_until(topics.kafka, name, started_ms) == (started_ms, "")
    with open_transaction(topics, name):
        logs.append(transaction(1, DAY.start_ms), 0)
        logs.flush()
        later_ms = now_ms() + 60_000
        until_ms, reason = readable_until(topics.kafka, name, later_ms, within_s=0.1)
        assert started_ms <= until_ms < later_ms and f"{name}-0 from offset 1" in reason, reason
        assert readable_until(topics.kafka, name, until_ms - 1, within_s=0.1)[0] == until_ms - 1
    assert readable_until(topics.kafka, name, later_ms) == (later_ms, "")
    manifest = Manifest().complete(until_ms, reason)
    with pytest.raises(DayNotArchived, match="for its end"):
        check_archived(manifest, Day.of(until_ms).plus(1), DetectorSettings(), later_ms)
    assert manifest.complete(later_ms).open_transaction == ""

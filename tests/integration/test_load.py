"""A real detector reads a history from two partitions: in order, each transaction once, none late."""

from __future__ import annotations

import csv
import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.batch import event_order
from fraud_rules.batch.event_order import OrderedHistory
from fraud_rules.cli.streams import load_name
from fraud_rules.codec.history.files import history_records
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.kafka.history_writer import loaded_records, send_history
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.schema import TransactionSchema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_detector import Installation
from tests.support.records.payments import sample_payment
from tests.support.waiting import until

pytestmark = pytest.mark.integration

ROWS = 12_000
DAYS = 30
RULE = b"1,(active),(payeeId),,(COUNT_FLINK),(SUM),(>=),(6),(1440)"
SENT_BEFORE = 4_000


def rows() -> list[dict[str, Any]]:
    """Payments of a month by 100 payees, a quarter of an hour apart or less."""
    chance = random.Random(11)
    start_ms = Day.parse("2018-04-01").start_ms
    times = sorted(start_ms + chance.randrange(DAYS * DAY_MS) for _ in range(ROWS))
    return [sample_payment(number, time_ms, payeeId=chance.randrange(100)) for number, time_ms in enumerate(times)]


def expected(history: list[dict[str, Any]]) -> set[int]:
    """The transactions that are at least the sixth payment of a payee within a day."""
    times: dict[int, list[int]] = {}
    found = set()
    for row in history:
        of_payee = times.setdefault(row["payeeId"], [])
        of_payee.append(row["eventTime"])
        if sum(each >= row["eventTime"] - DAY_MS for each in of_payee) >= 6:
            found.add(row["transactionId"])
    return found


def files_of(history: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Two unordered files, one of them with records that are not transactions."""
    mixed = random.Random(3).sample(history, len(history))
    first, second = folder / "a.csv", folder / "b.jsonl"
    with first.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(history[0]))
        writer.writeheader()
        writer.writerows(mixed[: ROWS // 2])
    second.write_text("".join(f"{json.dumps(row)}\n" for row in mixed[ROWS // 2 :]) + '{"payeeId":\n' * 3)
    return [first, second]


def test_history_in_any_order_is_evaluated_in_order(
    project: Project, topics: OwnTopics, detectors: DetectorsInTurn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation.make(tmp_path / "site", project, topics, max_offsets_per_trigger=1_500)
    produce(topics.bootstrap, topics.names.rules, [RULE])
    detectors.begin(installation)
    monkeypatch.setattr(event_order, "RUN_RECORDS", 2_500)
    history, env = rows(), topics.environment
    files = files_of(history, tmp_path)
    # An earlier load of the same files was interrupted.
    name, settings = load_name(files), installation.settings
    schema = TransactionSchema.load(installation.schema)
    ordered = OrderedHistory(tmp_path, schema, settings, Day.today().start_ms)
    for file in files:
        ordered.add(file.name, history_records(file, schema))
    started = ((position, row[2]) for position, row in islice(enumerate(ordered.rows()), SENT_BEFORE))
    send_history(topics.kafka, topics.names.transactions, name, started)
    assert loaded_records(topics.kafka, topics.names.transactions, name) == SENT_BEFORE

    done = fraud("streams", "load", *map(str, files), env=env)
    assert done.exit_code == 0, done.err
    assert f"{ROWS + 3 - SENT_BEFORE} records sent" in done.out
    assert f"{SENT_BEFORE} were sent before" in done.out
    assert "the detector quarantines 3 records: malformed_json (b.jsonl line " in done.out
    again = fraud("streams", "load", *map(str, files), env=env)
    assert again.out.startswith("0 records sent"), again.out
    sent = topic_ends(topics.kafka, topics.names.transactions)
    assert sent == {0: ROWS + 3, 1: 0}

    detectors.wait_ready()

    def evaluated() -> bool:
        detectors.check()
        return installation.has_read(sent, 1)

    until(evaluated, "all history is evaluated")
    batches = installation.progress()
    assert sum(each.rows > 0 for each in batches) > 5, "over several batches"
    assert sum(each.rows for each in batches) == ROWS
    assert sum(each.quarantined for each in batches) == 3
    assert sum(each.late for each in batches) == 0
    alerts = [json.loads(message.value() or b"") for message in read_all(topics.bootstrap, topics.names.alerts)]
    assert sorted(each["triggeringEvent"]["transactionId"] for each in alerts) == sorted(expected(history))

    older = tmp_path / "older.jsonl"
    older.write_text(json.dumps({**history[0], "transactionId": ROWS}) + "\n")
    refused = fraud("streams", "load", str(older), env=env)
    assert (refused.exit_code, "would be late" in refused.err) == (48, True), refused
    assert topic_ends(topics.kafka, topics.names.transactions) == sent
    assert detectors.stop() == 0

"""Quarantined records on a real broker: listed, repaired, and sent again exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Event as EventType
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.codec.transactions.quarantine import QuarantinedRecord, decode_quarantined, from_line, to_line
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import Fenced, InputInvalid
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs import quarantine
from fraud_rules.logs.quarantine import read_marks, read_quarantine, replay
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.records import quarantine_records
from fraud_rules.stream.worker.wire import UnreadableRecord
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.places import ROOT
from tests.support.processes.fraud_command import fraud
from tests.support.waiting import until

TOPIC_ROLES = ("quarantine", "quarantine_replays", "transactions")


def payment(number: int, payee: str = "payeeId", **members: object) -> bytes:
    plain = {"transactionId": number, "eventTime": now_ms(), payee: 1, "beneficiaryId": 2}
    return json.dumps({**plain, "paymentType": "CSH", "paymentAmount": 1, **members}).encode()


def refuse(topics: OwnTopics, *records: tuple[str, bytes], limit: int = 1_000) -> None:
    """Write records to the quarantine as the detector does."""
    refused = [UnreadableRecord(1, 40 + place, 7, reason, "why", raw) for place, (reason, raw) in enumerate(records)]
    writer = BatchWriter(topics.kafka, f"{topics.prefix}quarantine")
    writer.open()
    writer.write(quarantine_records(refused, topics.names, limit))
    await_settled(topics.kafka, [topics.names.quarantine])


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Path:
    """A project whose schema has `payer_id` as an alias of `payeeId`."""
    config = tmp_path / "config"
    config.mkdir()
    for name in ("topics.yaml", "detector.yaml"):
        (config / name).write_text((project.config / name).read_text())
    schema = (project.config / "schema.yaml").read_text()
    renamed = schema.replace("aliases: [payerId]", "aliases: [payerId, payer_id]")
    assert renamed != schema
    (config / "schema.yaml").write_text(renamed)
    return tmp_path


def test_records_are_listed_with_place_time_and_reason(topics: OwnTopics) -> None:
    env = topics.environment
    assert fraud("quarantine", "list", env=env).out == "0 quarantined records\n"
    refuse(topics, ("missing_field", b'{"a":\n1}\x1b[31m'), ("empty", b""), ("missing_field", b"\xff" * 500))
    produce(topics.bootstrap, topics.names.quarantine, [b"of another program", None])
    lines = fraud("quarantine", "list", env=env).out.splitlines()
    assert lines[0].startswith("0:0  20")
    assert f"{topics.names.transactions}-1@40  missing_field (why)" in lines[0]
    assert lines[1] == '    {"a":\\n1}\\x1b[31m'
    assert len(lines[5]) < 140
    assert lines[-1] == "5 quarantined records: 2 missing_field, 2 unknown, 1 empty"
    newest = fraud("quarantine", "list", "--reason", "missing_field", "--last", "1", env=env).out.splitlines()
    assert (newest[0][:4], len(newest), newest[-1]) == ("0:2 ", 3, "2 quarantined records: 2 missing_field")
    assert fraud("quarantine", "list", "--since", "2100-01-01", env=env).out == "0 quarantined records\n"
    assert fraud("quarantine", "list", "--since", "1h", "--json", env=env).out.count("\n") == 5
    wrong = fraud("quarantine", "list", "--since", "yesterday", env=env)
    assert (wrong.exit_code, "is not a time" in wrong.err) == (InputInvalid.exit_code, True)


def test_records_are_sent_once_when_the_schema_can_read_them(topics: OwnTopics, home: Path) -> None:
    renamed = [payment(number, "payer_id") for number in range(3)]
    refuse(topics, *(("missing_field", each) for each in renamed))
    env = topics.environment
    refused = fraud("quarantine", "replay", env=env)
    assert (refused.exit_code, refused.out.count("payeeId")) == (47, 3)
    assert read_all(topics.bootstrap, topics.names.transactions) == []

    env = {**env, "FRAUD_HOME": str(home)}
    one = fraud("quarantine", "replay", "0:1", env=env)
    assert one.out == f"1 records sent to {topics.names.transactions}, 0 were sent before\n"
    rest = fraud("quarantine", "replay", "--reason", "missing_field", env=env)
    assert (rest.exit_code, rest.out) == (0, f"2 records sent to {topics.names.transactions}, 1 were sent before\n")
    assert "0 records sent" in fraud("quarantine", "replay", env=env).out
    fed = read_all(topics.bootstrap, topics.names.transactions)
    assert sorted(message.value() or b"" for message in fed) == sorted(renamed)
    assert {dict(message.headers() or ())["fraud-quarantine"] for message in fed} == {b"0:0", b"0:1", b"0:2"}
    assert fraud("quarantine", "list", env=env).out.count("  replayed\n") == 3


def test_repaired_records_are_sent_in_place_of_quarantined_records(topics: OwnTopics, tmp_path: Path) -> None:
    good = payment(7)
    refuse(topics, ("malformed_json", good[:-1]), ("malformed_json", b"\xff"), ("too_large", payment(9)), limit=90)
    env = topics.environment
    listed = [json.loads(line) for line in fraud("quarantine", "list", "--json", env=env).out.splitlines()]
    assert [each.get("cut", False) for each in listed] == [True, False, True]
    listed[0]["record"] = good.decode()
    repaired = tmp_path / "repaired.jsonl"
    repaired.write_text("\n".join(map(json.dumps, listed)) + "\n")
    for fed, before in ((1, 0), (0, 1)):
        ended = fraud("quarantine", "replay", "--from", str(repaired), env=env)
        assert ended.out.startswith(f"{fed} records sent to {topics.names.transactions}, {before} were sent before\n")
        assert (ended.exit_code, "2 records are still unreadable" in ended.err) == (47, True)
    assert [message.value() for message in read_all(topics.bootstrap, topics.names.transactions)] == [good]

    repaired.write_text("{}\n")
    assert "line 1, is not a line of" in fraud("quarantine", "replay", "--from", str(repaired), env=env).err
    assert "is not a position" in fraud("quarantine", "replay", "17", env=env).err


@pytest.mark.parametrize("raw", [b"", b'{"a": "\xc3\xbc"}', b"\xff\x00", b"\x00", b'"\xed\xa0\x80"'])
def test_the_text_form_keeps_every_byte(raw: bytes) -> None:
    headers = [("a", raw), ("a", None), ("header.b", b"text")]
    for key in (raw, None):
        record = QuarantinedRecord(0, 17, 5, "empty", "d", "transactions-1@3", raw, key=key, headers=headers)
        assert from_line(to_line(record, replayed=True), "here") == record


def test_a_quarantined_record_without_headers_has_an_unknown_reason() -> None:
    assert decode_quarantined(0, 1, 2, None, None, [("reason", None)]).reason == ""
    unknown = QuarantinedRecord(0, 1, 2, "unknown", "", "?-?@?", b"", headers=[])
    assert decode_quarantined(0, 1, 2, None, None, []) == unknown


def interrupted_replay(topics: OwnTopics, halfway: EventType, resume: EventType) -> None:
    """Stop a replay in the middle of its transaction until `resume` is set. Another replay fences it by then."""

    def out(*arguments: Any) -> Iterator[OutRecord]:
        for count, record in enumerate(make_records(*arguments)):
            yield record
            if count == 5:
                halfway.set()
                resume.wait()

    make_records, quarantine._out = quarantine._out, out  # type: ignore[assignment]
    records = list(read_quarantine(topics.kafka, topics.names.quarantine))
    with pytest.raises(Fenced) as caught:
        replay(topics.kafka, DetectorSettings(topics=topics.names), default_schema(), records)
    assert caught.type is Fenced, "the transaction has not expired"


@pytest.mark.parametrize("killed", [True, False])
def test_a_second_replay_takes_over_from_the_first(topics: OwnTopics, killed: bool) -> None:
    payments = [payment(number) for number in range(20)]
    refuse(topics, *(("missing_field", each) for each in payments))
    context = get_context("spawn")
    halfway, resume = context.Event(), context.Event()
    first = context.Process(target=interrupted_replay, args=(topics, halfway, resume), daemon=True)
    first.start()
    until(halfway.is_set, "the first replay is in its transaction")
    if killed:
        first.kill()
        first.join()
    second = fraud("quarantine", "replay", env=topics.environment)
    assert second.out == f"20 records sent to {topics.names.transactions}, 0 were sent before\n"
    if not killed:
        resume.set()
        first.join(180)
        assert first.exitcode == 0, "the first replay is fenced, or its traceback is above"
    assert "0 records sent" in fraud("quarantine", "replay", env=topics.environment).out
    fed = [message.value() for message in read_all(topics.bootstrap, topics.names.transactions)]
    assert sorted(each or b"" for each in fed) == sorted(payments)
    assert len(read_marks(topics.kafka, topics.names.quarantine_replays)) == 20


def default_schema() -> TransactionSchema:
    return TransactionSchema.load(ROOT / "config" / "schema.yaml")

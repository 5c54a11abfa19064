"""`fraud streams`, `alerts` and `status` on a real broker, with handmade records of a detector."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import read_topic
from fraud_rules.runtime import clock
from tests.support.conformance import Case, differences, load_cases
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.timed_topics import date_by_producer
from tests.support.processes.ends import await_end
from tests.support.processes.fraud_command import fraud
from tests.support.records.progress import progress_record
from tests.support.rules import count_rule
from tests.support.waiting import until

COUNT_RULE = count_rule(limit=2, windowMinutes=1)


def payment(transaction_id: int) -> bytes:
    now_ms = clock.now_ms()
    about = b'"payeeId":1,"beneficiaryId":2,"paymentType":"CSH","paymentAmount":0.10'
    return b'{"transactionId":%d,"eventTime":%d,%b}' % (transaction_id, now_ms, about)


def progress(topics: OwnTopics, batch_id: int, ends: dict[str, int], rules_end: int, **members: Any) -> bytes:
    counts = {"rows": 4, "lag": 0, "rulesInForce": 1, "retainedEvents": 4}
    return progress_record(batch_id, {topics.names.transactions: ends}, rulesEnd=rules_end, **{**counts, **members})


def report(topics: OwnTopics, *records: bytes) -> None:
    produce(topics.bootstrap, topics.names.detector_progress, records, key=b"detector")


# --- generate ---


def test_generate_sends_the_requested_records(topics: OwnTopics) -> None:
    env = topics.environment
    ended = fraud("streams", "generate", "--rate", "400", "--seconds", "1", "--malformed", "0.1", env=env)
    assert ended.exit_code == 0
    assert ended.out.startswith("sent 400 records")
    assert "planted frauds: 0" in ended.out
    sent = [record for part in read_topic(topics.kafka, topics.names.transactions).values() for record in part]
    assert len(sent) == 400
    # An ordinary payment is due at its event time, however slow the machine is.
    ahead_ms = [event_ms - record.append_ms for record in sent if (event_ms := event_time_ms(record.value)) is not None]
    assert len(ahead_ms) > 300
    assert max(ahead_ms) <= 0, "no payment comes before its time"


def event_time_ms(value: bytes | None) -> int | None:
    """The event time of a generated payment, None for a faulty one."""
    found = re.fullmatch(rb'\{"transactionId":\d+,"eventTime":(\d+),[^\[]*"longitude":-?[\d.]+\}', value or b"")
    return None if found is None else int(found[1])


def test_generate_names_a_missing_topic(broker: Broker) -> None:
    env = {"FRAUD_BOOTSTRAP": broker.bootstrap, "FRAUD_TOPICS_TRANSACTIONS": "nowhere"}
    ended = fraud("streams", "generate", "--seconds", "1", env=env)
    assert ended.exit_code == 7
    assert "nowhere" in ended.err


def test_generate_refuses_impossible_options(broker: Broker) -> None:
    assert fraud("streams", "generate", "--rate", "0", env={"FRAUD_BOOTSTRAP": broker.bootstrap}).exit_code == 3


# --- alerts ---


def test_alerts_shows_the_newest_alerts(topics: OwnTopics) -> None:
    documents = [
        {
            "ruleId": 4, "shadow": False, "violatedRule": {"name": "Huge", "limitOperatorType": ">", "limit": 5},
            "key": {"payeeId": place}, "triggeringValue": "72123.45", "windowCount": 1, "suppressed": 0,
            "eventTime": 1_700_000_000_000, "ingestionTime": clock.now_ms(),
        }
        for place in range(5)
    ]  # fmt: skip
    values = [json.dumps(document).encode() for document in documents]
    produce(topics.bootstrap, topics.names.alerts, values)
    env = topics.environment
    lines = fraud("alerts", "list", "--last", "2", env=env).out.splitlines()
    assert ["payeeId=3" in lines[0], "payeeId=4" in lines[1]] == [True, True]
    assert "rule 4 Huge" in lines[0]
    assert "72,123.45 > 5 of 1" in lines[0]
    printed = fraud("alerts", "list", "--last", "9", "--json", env=env).out.splitlines()
    assert [json.loads(line) for line in printed] == documents
    assert fraud("alerts", "list", "--last", "0", env=env).out == ""


UNREADABLE = [None, b"\xff", b'{"ruleId": 1,', b"17", b"{}", b"[" * 100_000, b'{"eventTime":1E+999999999999999999999}']


def test_unreadable_alerts_and_progress_are_skipped(topics: OwnTopics) -> None:
    alert = {
        "ruleId": 4, "shadow": False, "violatedRule": {}, "key": {"payeeId": 3}, "triggeringValue": "7",
        "windowCount": 1, "suppressed": 0, "eventTime": 1_700_000_000_000, "ingestionTime": 1_700_000_000_000,
    }  # fmt: skip
    correction = {"kind": "ADDED", "alertId": "a", "day": "2023-11-14", "alert": alert}
    without_date = {**alert, "eventTime": 2**62}
    produce(topics.bootstrap, topics.names.alerts, [*UNREADABLE, json.dumps(without_date).encode()])
    produce(topics.bootstrap, topics.names.alerts, [json.dumps(alert).encode()])
    produce(topics.bootstrap, topics.names.alert_corrections, [*UNREADABLE, json.dumps(correction).encode()])
    report(topics, *[each for each in UNREADABLE if each is not None], progress(topics, 0, {"0": 0}, 0))
    env = topics.environment
    for shown, *options in ((2,), (2, "--json"), (1, "--corrections")):
        ended = fraud("alerts", "list", "--last", "100", *options, env=env)
        assert (ended.exit_code, len(ended.out.splitlines()), "payeeId" in ended.out) == (0, shown, True)
    assert fraud("status", env=env).exit_code == 0
    assert fraud("streams", "record", env=env).exit_code == 0


def test_corrections_are_shown_with_their_alerts(topics: OwnTopics) -> None:
    alert = {
        "ruleId": 4, "shadow": False, "violatedRule": {"name": "Huge", "limitOperatorType": ">", "limit": 5},
        "key": {"payeeId": 3}, "triggeringValue": "72123.45", "windowCount": 1, "suppressed": 0,
        "eventTime": 1_700_000_000_000, "ingestionTime": 1_700_000_000_000,
    }  # fmt: skip
    corrections = [
        {"kind": "ADDED", "alertId": "a", "day": "2023-11-14", "alert": alert},
        {"kind": "RETRACTED", "alertId": "b", "day": "2023-11-14"},
    ]
    produce(topics.bootstrap, topics.names.alert_corrections, [json.dumps(each).encode() for each in corrections])
    lines = fraud("alerts", "list", "--corrections", env=topics.environment).out.splitlines()
    assert lines[0].startswith("ADDED      2023-11-14") and "4 Huge  payeeId=3" in lines[0]
    assert lines[1] == "RETRACTED  2023-11-14  alert b"


# --- status ---


def test_status_of_an_unreachable_broker() -> None:
    ended = fraud("status", "--json", "--bootstrap", "127.0.0.1:1")
    assert ended.exit_code == 1
    assert json.loads(ended.out)["broker"]["up"] is False


def test_status_shows_whether_the_detector_is_alive(topics: OwnTopics) -> None:
    env = topics.environment
    never = fraud("status", env=env)
    assert (never.exit_code, "has never reported" in never.out) == (1, True)
    assert "No payment evaluated yet. No payments waiting." in never.out
    report(topics, progress(topics, 0, {"0": 4}, 1, rulesInForce=7))
    alive = fraud("status", "--json", env=env)
    assert alive.exit_code == 0
    detector = json.loads(alive.out)["detector"]
    assert (detector["alive"], detector["batchId"], detector["rulesInForce"]) == (True, 0, 7)
    assert "7 in force" in fraud("status", env=env).out


def test_status_of_a_dead_detector_shows_the_time_of_its_end_and_the_waiting_payments(
    topics: OwnTopics, tmp_path: Path
) -> None:
    env = topics.environment
    date_by_producer(topics, topics.names.detector_progress)
    since_ms = clock.now_ms() - 900_000
    timed = {"batchId": 0, "rows": 4, "pinMs": 5, "evaluateMs": 150, "writeMs": 20, "p50Ms": 102_107, "p99Ms": 130_000}
    last = progress(topics, 1, {"0": 4}, 1, rows=4, lag=0, previous=timed, lateTransactions=1)
    produce(topics.bootstrap, topics.names.detector_progress, [last], key=b"detector", at_ms=since_ms)
    produce(topics.bootstrap, topics.names.transactions, [payment(number) for number in range(16)])
    reasons = [{"field": "limit", "message": "must be a number"}]
    refusal = {"ruleVersion": 7, "ruleId": 3, "status": "REJECTED", "batchId": 1, "time": 0, "reasons": reasons}
    produce(topics.bootstrap, topics.names.rule_operations, [json.dumps(refusal).encode()])
    ended = fraud("status", env=env)
    assert ended.exit_code == 1
    since = datetime.fromtimestamp(since_ms / 1_000, UTC).strftime("%H:%M:%S UTC")
    assert f"payments  No payment evaluated since {since}. 12 payments waiting.\n" in ended.out
    assert "NOT ALIVE, batch 1 ended 15 min" in ended.out
    assert "figures   of the last batch (out of date)" in ended.out
    assert "lag" not in ended.out
    assert "p50 1 min 42 s, p99 2 min 10 s, batch 175 ms (backlog: payments waited before they were read)" in ended.out
    assert "rejected  rule 3 at offset 7: limit: must be a number" in ended.out
    seen = json.loads(fraud("status", "--json", env=env).out)
    assert (seen["liveness"]["severity"], seen["liveness"]["sinceMs"]) == ("RED", since_ms)
    assert seen["liveness"]["waiting"] == 12
    assert seen["refusedRules"][0]["ruleVersion"] == 7

    with following(env, tmp_path) as messages:
        until(
            lambda: f"No payment evaluated since {since}. 12 payments waiting." in messages(), "the outage is reported"
        )
        again = progress(topics, 2, {"0": 16}, 1, rows=12)
        now_ms = clock.now_ms()
        produce(topics.bootstrap, topics.names.detector_progress, [again], key=b"detector", at_ms=now_ms)
        until(lambda: "Payments are evaluated again." in messages(), "the end of the outage is reported")


@contextmanager
def following(env: dict[str, str], folder: Path) -> Iterator[Callable[[], str]]:
    """`fraud alerts list --follow` in a process; yields a function that reads its stderr. Ctrl-C ends it."""
    log = folder / "stderr"
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "fraud_rules.cli", "alerts", "list", "--follow"]
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield log.read_text
        process.send_signal(signal.SIGINT)
        assert await_end(process, log) == 130
    finally:
        process.kill()
        process.wait()


# --- record and replay ---


@pytest.mark.parametrize("case", load_cases("semantics.json")[:4], ids=str)
def test_replay_gives_the_results_of_a_case(case: Case, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(json.dumps(case.document))
    ended = fraud("streams", "replay", str(tmp_path / "case.json"))
    assert ended.exit_code == 0
    assert not differences(case.expect, json.loads(ended.out))


def test_replay_keeps_amounts_exact() -> None:
    steps = [
        {"at": 1_700_000_000_000, "rule": {**COUNT_RULE, "limit": 1, "groupingKeyNames": ["paymentAmount"]}},
        {"at": 1_700_000_000_001, "tx": "AMOUNT"},
    ]
    record = (
        '{"transactionId":1,"eventTime":1700000000000,"payeeId":1,"beneficiaryId":2,"paymentType":"CSH",'
        '"paymentAmount":0.10}'
    )
    document = json.dumps({"steps": steps}).replace('"AMOUNT"', record)
    ended = fraud("streams", "replay", "-", stdin=document)
    assert '"key":{"paymentAmount":0.10}' in ended.out


def test_replay_names_a_quarantined_transaction_by_its_id() -> None:
    steps = [{"at": 1, "tx": {"transactionId": 7, "eventTime": "never"}}, {"at": 1, "tx": "garbage"}]
    answer = json.loads(fraud("streams", "replay", "-", stdin=json.dumps({"steps": steps})).out)
    assert answer.pop("quarantine") == [7, None]
    assert not any(answer.values())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"steps": 1}', '{"steps": [{"at": 1}]}'])
def test_replay_refuses_an_invalid_recording_in_one_line(content: str) -> None:
    ended = fraud("streams", "replay", "-", stdin=content)
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith("standard input is not a recording: ")
    assert "\n" not in ended.err


def test_replay_refuses_a_missing_file() -> None:
    ended = fraud("streams", "replay", "/nowhere/run.json")
    assert (ended.exit_code, ended.err) == (2, "/nowhere/run.json cannot be read: No such file or directory")


def test_a_recorded_run_replays_with_its_cuts_and_pins(topics: OwnTopics, tmp_path: Path) -> None:
    """Four good payments of one payee. The first pin has no rule, and the detector rejects one rule."""
    env = topics.environment
    names = topics.names
    produce(topics.bootstrap, names.rules, [json.dumps({**COUNT_RULE, "ruleId": each}).encode() for each in (1, 2)])
    produce(topics.bootstrap, names.transactions, [payment(1), payment(2), b"\xff\x00junk", None])
    produce(topics.bootstrap, names.transactions, [payment(3), b" " + payment(4), payment(5)], partition=1)
    reasons = [{"field": "windowMinutes", "message": "too much state"}]
    refusal = {"ruleVersion": 1, "status": "REJECTED", "batchId": 1, "time": 0, "reasons": reasons}
    produce(topics.bootstrap, names.rule_operations, [json.dumps(refusal).encode()])
    report(
        topics,
        progress(topics, 0, {"0": 2, "1": 0}, 0),
        progress(topics, 1, {"0": 4, "1": 2}, 2, rulesRefused=[1]),
    )

    path = tmp_path / "run.json"
    assert fraud("streams", "record", "--output", str(path), env=env).exit_code == 0
    answer = json.loads(fraud("streams", "replay", str(path), env=env).out)
    assert [(alert["ruleId"], alert["transactionId"]) for alert in answer["alerts"]] == [(1, 4)]
    assert answer["quarantine"] == [None]
    assert answer["rejected"] == [{"ruleVersion": 1, "reasons": ["windowMinutes: too much state"]}]


def test_a_recording_needs_a_first_batch(topics: OwnTopics) -> None:
    ended = fraud("streams", "record", env=topics.environment)
    assert ended.exit_code == 1
    assert "has not evaluated anything" in ended.err

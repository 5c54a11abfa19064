"""`fraud prove` and `fraud verify` on a real broker, with handmade records of a detector.

The commands over an archive are long: the tests of `unit/proof` build such proofs from archives in many ways.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.logs.recorder import record_run
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.state_damage import remove_records
from tests.support.nightly.archived import Site
from tests.support.nightly.corrected import corrected_alerts
from tests.support.processes.fraud_command import fraud
from tests.support.proofs import write_run
from tests.support.rules import count_rule

pytestmark = pytest.mark.integration

TOPIC_ROLES = (
    "transactions", "rules", "alerts", "shadow_alerts", "alert_corrections", "decisions", "restrictions",
    "rule_operations", "detector_progress",
)  # fmt: skip


RULE = count_rule(limit=3, windowMinutes=5, weight=60, action="RESTRICT")


def evaluated(topics: OwnTopics, payments: int) -> list[str]:
    """Write a rule, the records of a run, and foreign records of the topic of alerts. Returns the ids of the alerts."""
    produce(topics.bootstrap, topics.names.rules, [json.dumps(RULE).encode()])
    foreign = [b"{", b"[]", b'{"ruleId": 1}', b'{"ruleId": [1], "key": {}}']
    produce(topics.bootstrap, topics.names.alerts, foreign, key=b"other")
    return write_run(topics, payments)


def test_an_alert_of_the_topics_is_proved(topics: OwnTopics, tmp_path: Path) -> None:
    alerts = evaluated(topics, 12)
    file = tmp_path / "proof.zip"
    made = fraud("prove", alerts[-1], "--output", str(file), env=topics.environment)
    assert made.exit_code == 0, made.err
    checked = fraud("verify", str(file))
    assert (checked.exit_code, "the proof holds" in checked.out) == (0, True), checked.err + checked.out
    assert "payments from" in checked.out and "restriction of the key since" in checked.out
    decided = fraud("prove", "11", "--decision", "--output", str(file), env=topics.environment)
    assert decided.exit_code == 0, decided.err
    checked = fraud("verify", str(file))
    assert (checked.exit_code, "score 60, REVIEW" in checked.out) == (0, True), checked.err + checked.out
    undecided = fraud("prove", "1", "--decision", env=topics.environment)
    assert (undecided.exit_code, "no decision about payment 1" in undecided.err) == (75, True)
    changed = file.read_bytes().replace(b"decision.json", b"decision.jsom")
    file.write_bytes(changed)
    assert fraud("verify", str(file)).exit_code == 74
    unreadable = fraud("prove", "other", env=topics.environment)
    assert (unreadable.exit_code, "the alert is unreadable" in unreadable.err) == (75, True)
    missing = fraud("prove", "nothing", env=topics.environment)
    assert (missing.exit_code, "no alert nothing" in missing.err) == (75, True)


@pytest.mark.long
def test_live_and_added_alerts_are_proved_from_the_archive(topics: OwnTopics, tmp_path: Path) -> None:
    alerts, names = evaluated(topics, 12), topics.names
    recording = record_run(topics.kafka, DetectorSettings(topics=names), load_schema("default"))
    document = json.loads(b"".join(recording.lines()))
    archive = tmp_path / "archive"
    Site(ArchiveStore(archive), document, load_schema("default"), names.transactions).archive()
    for topic, end in ((names.transactions, 8), (names.detector_progress, 3)):
        remove_records(topics, topic, end)
    file = tmp_path / "proof.zip"
    made = fraud("prove", alerts[-1], "--output", str(file), "--archive", str(archive), env=topics.environment)
    assert made.exit_code == 0, made.err
    assert "missing: the bytes of 8 payments, whose values are from the archive" in made.err
    checked = fraud("verify", str(file))
    assert (checked.exit_code, "the proof holds" in checked.out) == (0, True), checked.err + checked.out
    added = next(
        each.json.replace(b'"detectionTime":0', b'"detectionTime":%d' % 2**45)
        for each in corrected_alerts(document, 7, load_schema("default"), DetectorSettings(topics=names))
        if each.alert_id == alerts[-1]
    )
    remove_records(topics, names.alerts, -1)
    correction = b'{"kind":"ADDED","alertId":"%b","eventTime":%d,"alert":%b}'
    event_ms = json.loads(added)["eventTime"]
    text = correction % (alerts[-1].encode(), event_ms, added)
    produce(topics.bootstrap, names.alert_corrections, [text], key=alerts[-1].encode())
    made = fraud("prove", alerts[-1], "--output", str(file), "--archive", str(archive), env=topics.environment)
    assert made.exit_code == 0, made.err
    checked = fraud("verify", str(file))
    assert (checked.exit_code, "a re-evaluation added the alert" in checked.out) == (0, True), checked.err + checked.out
    words = ("prove", alerts[-1], "--retraction", "--output", str(file), "--archive", str(archive))
    added_last = fraud(*words, env=topics.environment)
    assert (added_last.exit_code, "retracts nothing" in added_last.err) == (75, True)
    wrong = b'{"kind":"RETRACTED","alertId":"%b","eventTime":%d,"correctedAt":%d}' % (alerts[-1].encode(), 1, 2**45)
    produce(topics.bootstrap, names.alert_corrections, [wrong], key=alerts[-1].encode())
    assert fraud(*words, env=topics.environment).exit_code == 0
    checked = fraud("verify", str(file))
    assert (checked.exit_code, "retraction: the rule holds" in checked.err) == (74, True), checked.err + checked.out
    bounded = fraud("prove", alerts[-1], "--archive", str(archive), "--max-records", "3", env=topics.environment)
    assert (bounded.exit_code, "at most 3 may be: use --max-records" in bounded.err) == (75, True)


def test_the_topics_say_why_a_payment_has_no_alert(topics: OwnTopics) -> None:
    evaluated(topics, 6)
    answered = fraud("why", "1", "--rule", "1", env=topics.environment)
    assert answered.exit_code == 0, answered.err
    assert "does not meet the limit: value 1 of 1 payments, limit 3" in answered.out
    assert "writes an alert" in fraud("why", "5", env=topics.environment).out
    assert "was not in force" in fraud("why", "5", "--rule", "9", env=topics.environment).out
    assert fraud("why", "17", env=topics.environment).exit_code == 75

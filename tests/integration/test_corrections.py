"""Corrections on a real broker: all of a day or none, each once after any kill, and undone if later data require it.

A run that is killed at any time is long: the default test kills one at the worst time.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_demo.late_frauds import late_frauds
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.job import ReevaluationJob
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ArchiveDamaged, DayBusy, RuleLogForeign, StorageFull
from fraud_rules.kafka.consume import await_settled
from fraud_rules.model.day import Day
from fraud_rules.model.decision import SEVERITY_WEIGHTS
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.nightly.archived import Site
from tests.support.nightly.run_once import job_of, run_once
from tests.support.records.output_schemas import validate_outputs
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.integration

DAY = Day.parse("2026-11-12")
KILLS = 6
OUTCOMES = {(False, False): "NOTE", (True, False): "REVIEW", (True, True): "DECLINE"}
HALF = """
import os, signal, sys, time
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord

bootstrap, topic, day, count = sys.argv[1:]
writer = BatchWriter(KafkaConnection(bootstrap), f"fraud-reevaluation-detector-{day}")

def records():
    yield from [OutRecord(topic, b"{}")] * int(count)
    writer._producer.flush()
    os.kill(os.getpid(), signal.SIGKILL)

writer.open()
writer.write(records())
"""


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Site:
    """A day of late frauds under the seed rules. The first of two batches has half of them."""
    at_ms = DAY.end_ms + 36_000_000
    rules = [json.loads(r.value) for path in sorted((project.config / "rules").iterdir()) for r in read_rule_file(path)]
    rules[0]["action"] = "RESTRICT"
    steps: list[dict[str, Any]] = [{"at": at_ms, "rule": rule} for rule in rules]
    steps += [{"at": at_ms + 1, "tx": json.loads(text)} for _, text in late_frauds(DAY)]
    transactions = len(steps) - len(rules)
    batches = [{"offsets": {"transactions": {"0": end}}, "pin": len(rules)} for end in (3, transactions)]
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 2, "batches": batches}, load_schema("default"))
    site.archive()
    return site


def job(site: Site, topics: OwnTopics) -> ReevaluationJob:
    return job_of(site.store, topics.bootstrap, topics.prefix, DAY)


def archived_ids(site: Site) -> list[int]:
    ids = [step["tx"]["transactionId"] for step in site.document["steps"] if "tx" in step]
    return list(dict.fromkeys(ids))


def records(topics: OwnTopics, topic: str) -> list[dict[str, Any]]:
    await_settled(topics.kafka, [topic])
    return [json.loads(message.value() or b"") for message in read_all(topics.bootstrap, topic)]


@pytest.mark.long
def test_a_killed_run_leaves_all_or_nothing(site: Site, topics: OwnTopics) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.nightly.run_once",
        str(site.store.root),
        topics.bootstrap,
        topics.prefix,
        str(DAY),
    ]
    chance = random.Random(1)
    seen = {0}
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        killer = threading.Timer(chance.uniform(1.0, 6.0), process.kill)
        killer.start()
        process.wait()
        killer.cancel()
        seen.add(len(read_all(topics.bootstrap, topics.names.alert_corrections)))
    result = run_once(job(site, topics))
    corrections = records(topics, topics.names.alert_corrections)
    assert result.added == len(corrections) > 5
    assert seen <= {0, len(corrections)}
    assert len({correction["alertId"] for correction in corrections}) == len(corrections)
    assert run_once(job(site, topics)).new_corrections == 0


def test_a_run_that_is_killed_while_it_publishes_has_published_nothing(site: Site, topics: OwnTopics) -> None:
    """The broker has half of the corrections, in an open transaction that the next run finds."""
    expected = run_once(replace(job(site, topics), publish=False)).added
    half = subprocess.run(
        [sys.executable, "-c", HALF, topics.bootstrap, topics.names.alert_corrections, str(DAY), str(expected // 2)],
        check=False,
    )
    assert half.returncode == -signal.SIGKILL
    assert len(read_all(topics.bootstrap, topics.names.alert_corrections, committed=False)) == expected // 2
    assert run_once(job(site, topics)).new_corrections == expected
    corrections = records(topics, topics.names.alert_corrections)
    assert [each["kind"] for each in corrections] == ["ADDED"] * expected


def test_a_correction_has_the_score_of_its_transaction_with_all_corrections(site: Site, topics: OwnTopics) -> None:
    """The detector has published two wrong alerts: one of a transaction with a right alert, one of another one."""
    run_once(job(site, topics))
    added = records(topics, topics.names.alert_corrections)
    weights: dict[int, dict[int, int]] = {}
    for each in added:
        rule = each["alert"]["violatedRule"]
        weights.setdefault(each["transactionId"], {})[rule["ruleId"]] = SEVERITY_WEIGHTS[rule["severity"]]
    expected = [sum(weights[each["transactionId"]].values()) for each in added]
    assert [each["score"] for each in added] == expected
    assert {(each["score"] >= 50, each["score"] >= 100): each["outcome"] for each in added} | OUTCOMES == OUTCOMES

    right = added[0]["alert"]
    (alone,) = [tx for tx in archived_ids(site) if tx not in weights][:1]
    wrong = [
        {**right, "alertId": "00000000-0000-5000-8000-000000000001"},
        {**right, "alertId": "00000000-0000-5000-8000-000000000002"},
    ]
    wrong[1] = {**wrong[1], "triggeringEvent": {**right["triggeringEvent"], "transactionId": alone}}
    for alert in wrong:
        produce(topics.bootstrap, topics.names.alerts, [json.dumps(alert).encode()], key=alert["alertId"].encode())
    run_once(job(site, topics))
    new = records(topics, topics.names.alert_corrections)[len(added) :]
    assert {(each["alertId"][-1], each["kind"], each["score"]) for each in new} == {
        ("1", "RETRACTED", added[0]["score"]),
        ("2", "RETRACTED", 0),
    }
    assert {each["outcome"] for each in new if each["score"] == 0} == {"NOTE"}
    assert validate_outputs(topics) >= {"alert_corrections", "restrictions"}


@pytest.mark.parametrize("harm", ["missing", "cut short"])
def test_a_day_with_an_incomplete_file_is_not_evaluated(site: Site, topics: OwnTopics, harm: str) -> None:
    (entry,) = site.store.latest().of(Table.TRANSACTIONS, DAY)
    path = site.store.root / entry.path
    content = path.read_bytes()
    path.unlink()
    if harm == "cut short":
        path.write_bytes(content[:-9])
    with pytest.raises(ArchiveDamaged, match=str(path)):
        run_once(job(site, topics))
    assert records(topics, topics.names.alert_corrections) == []
    path.write_bytes(content)
    assert run_once(job(site, topics)).new_corrections > 5


def test_a_full_disk_is_named_and_nothing_is_published(site: Site, topics: OwnTopics, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "3m") as enlarge:
        folder = tmp_path / "disk" / "archive"
        shutil.copytree(site.store.root, folder)
        asked = job_of(ArchiveStore.at(str(folder)), topics.bootstrap, topics.prefix, DAY)
        free = shutil.disk_usage(folder).free
        (tmp_path / "disk" / "others").write_bytes(bytes(free - free % 4096))
        with pytest.raises(StorageFull):
            run_once(asked)
        assert records(topics, topics.names.alert_corrections) == []
        assert asked.options.store.result(DAY) is None
        enlarge()
        assert run_once(asked).new_corrections > 5


@pytest.mark.long
def test_wrong_additions_and_wrong_alerts_are_retracted(site: Site, topics: OwnTopics) -> None:
    """The detector has published an alert that the day does not confirm. An earlier run has added another one."""
    found = run_once(job(site, topics))
    added = records(topics, topics.names.alert_corrections)
    held = records(topics, topics.names.restrictions)
    restricting = next(each["alert"] for each in added if each["alertId"] == held[0]["alertId"])
    restrictive = [each["alertId"] for each in added if each["alert"]["violatedRule"].get("action") == "RESTRICT"]
    assert [each["alertId"] for each in held] == restrictive

    tx = restricting["triggeringEvent"]["transactionId"]
    wrong = {**restricting, "alertId": "00000000-0000-5000-8000-000000000001"}
    later = {**wrong, "alertId": "00000000-0000-5000-8000-000000000002"}
    later["triggeringEvent"] = {**wrong["triggeringEvent"], "transactionId": tx + 10**6}
    stale = {**added[0], "alertId": "00000000-0000-5000-8000-000000000003", "kind": "ADDED"}
    stale["alert"] = {**added[0]["alert"], "alertId": stale["alertId"]}
    for topic, document in (
        (topics.names.alerts, wrong),
        (topics.names.alerts, later),
        (topics.names.alert_corrections, stale),
    ):
        produce(topics.bootstrap, topic, [json.dumps(document).encode()], key=document["alertId"].encode())

    again = run_once(job(site, topics))
    new = records(topics, topics.names.alert_corrections)[len(added) + 1 :]
    assert {(each["alertId"][-1], each["kind"]) for each in new} == {("1", "RETRACTED"), ("3", "RETRACTED")}
    assert (again.added, again.retracted, again.new_corrections) == (found.added, 1, 2)
    ended = [each for each in records(topics, topics.names.restrictions) if each["alertId"] == wrong["alertId"]]
    assert [each["liftedBy"] for each in ended] == ["RETRACTED"]
    assert run_once(job(site, topics)).new_corrections == 0


def test_alerts_of_another_rule_log_are_named(site: Site, topics: OwnTopics) -> None:
    run_once(job(site, topics))
    alert = records(topics, topics.names.alert_corrections)[0]["alert"]
    foreign = {**alert, "alertId": "00000000-0000-5000-8000-000000000009", "ruleVersion": 77}
    produce(topics.bootstrap, topics.names.alerts, [json.dumps(foreign).encode()], key=foreign["alertId"].encode())
    with pytest.raises(RuleLogForeign, match="version 77"):
        run_once(job(site, topics))


def test_a_day_is_never_evaluated_twice_at_once(site: Site, topics: OwnTopics) -> None:
    asked = job(site, topics)
    with asked.options.store.exclusive(DAY), pytest.raises(DayBusy):
        run_once(asked)

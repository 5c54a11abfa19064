"""`fraud rules`, on files and on a real rule log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fraud_rules.logs.rule_status import read_rejected
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.places import ROOT
from tests.support.processes.fraud_command import fraud
from tests.support.rules import sum_rule

TOPIC_ROLES = ("rule_operations", "rules")

SEED = ROOT / "config" / "rules"

RULE = sum_rule(11, limit="0.10", windowMinutes=20)
TEXT = "12,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50.30),(20)\n"


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(RULE))
    return path


# --- check, without a broker ---


def test_check_reports_every_reason_by_field(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({**RULE, "ruleId": 0, "limitt": 1, "windowMinutes": 99_999_999}))
    ended = fraud("rules", "check", str(tmp_path / "bad.json"))
    assert ended.exit_code == 1
    assert [line.split(":")[0].strip() for line in ended.out.splitlines()[1:]] == ["limitt", "ruleId", "windowMinutes"]


def test_check_as_json(rule_file: Path) -> None:
    (checked,) = json.loads(fraud("rules", "check", "--json", str(rule_file)).out)
    says = "Alert when one payer has a total amount of more than 0.10 EUR within 20 minutes."
    assert checked == {"where": "rule.json, rule 1", "accepted": True, "says": says, "reasons": []}


@pytest.mark.parametrize(
    ("content", "says"), [("", "holds no rules"), ("{", "Expecting"), ("[1]", "rule 1 is not a mapping")]
)
def test_a_file_without_rules_is_refused_in_one_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(content)
    ended = fraud("rules", "check", str(path))
    assert (ended.exit_code, ended.out) == (2, "")
    assert says in ended.err
    assert "\n" not in ended.err


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    ended = fraud("rules", "check", str(tmp_path))
    assert ended.exit_code == 2
    assert "holds no rule files" in ended.err


def test_an_unreachable_broker_is_named(rule_file: Path) -> None:
    ended = fraud("rules", "save", "--direct", str(rule_file), "--bootstrap", "127.0.0.1:1")
    assert ended.exit_code == 7
    assert "127.0.0.1:1" in ended.err


# --- with a broker ---


def test_apply_writes_in_order_and_skips_rules_in_force(topics: OwnTopics, rule_file: Path, tmp_path: Path) -> None:
    env = topics.environment
    (tmp_path / "more.txt").write_text(TEXT)
    assert fraud("rules", "save", "--direct", str(rule_file), str(tmp_path / "more.txt"), env=env).exit_code == 0
    assert fraud("rules", "save", "--direct", str(rule_file), env=env).out.count("unchanged") == 1
    changed = {**RULE, "limit": "0.20", "source": "seed"}
    rule_file.write_text(json.dumps([changed, {"ruleId": 12, "ruleState": "DELETE"}]))
    assert fraud("rules", "save", "--direct", str(rule_file), env=env).exit_code == 0

    written = read_all(topics.bootstrap, topics.names.rules)
    assert [message.offset() for message in written] == [0, 1, 2, 3]
    assert [message.key() for message in written] == [b"11", b"12", b"11", b"12"]
    documents = [json.loads(str(message.value().decode())) for message in written]  # type: ignore[union-attr]
    assert [document["source"] for document in documents] == ["cli", "cli", "seed", "cli"]
    assert [document.get("limit") for document in documents] == ["0.10", 50.30, "0.20", None]


def test_nothing_is_written_when_one_rule_is_rejected(topics: OwnTopics, rule_file: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump({**RULE, "ruleId": 12, "ruleState": "RUNNING"}))
    ended = fraud("rules", "save", "--direct", str(rule_file), str(tmp_path / "bad.yaml"), env=topics.environment)
    assert ended.exit_code == 4
    assert "bad.yaml, rule 1: ruleState: " in ended.err
    assert "1 of 2 rules are not valid; nothing was written" in ended.err
    assert read_all(topics.bootstrap, topics.names.rules) == []


def test_a_dry_run_writes_nothing(topics: OwnTopics, rule_file: Path) -> None:
    ended = fraud("rules", "save", "--direct", "--dry-run", str(rule_file), env=topics.environment)
    assert "would be added" in ended.out
    assert read_all(topics.bootstrap, topics.names.rules) == []


def test_list_shows_the_rules_in_force(topics: OwnTopics, rule_file: Path) -> None:
    env = topics.environment
    fraud("rules", "save", "--direct", str(SEED), str(rule_file), env=env)
    listed = json.loads(fraud("rules", "list", "--json", env=env).out)
    assert [each["ruleId"] for each in listed] == [*range(1, 10), 11]
    assert [each["ruleVersion"] for each in listed] == list(range(10))
    assert [each["live"] for each in listed] == [None] * 10
    assert "not yet" in fraud("rules", "list", env=env).out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_an_export_applies_to_the_same_rules(topics: OwnTopics, tmp_path: Path, form: str) -> None:
    env = topics.environment
    (tmp_path / "exact.yaml").write_text(
        "ruleId: 20\nlimit: 0.30\n" + yaml.safe_dump(_without(RULE, "ruleId", "limit"))
    )
    fraud("rules", "save", "--direct", str(SEED), str(tmp_path / "exact.yaml"), env=env)
    exported = tmp_path / f"exported.{form}"
    assert fraud("rules", "export", "--format", form, "-o", str(exported), env=env).exit_code == 0
    assert "0.30" in exported.read_text()
    again = fraud("rules", "save", "--direct", str(exported), env=env)
    assert again.out.count("unchanged") == len(list(SEED.glob("*.yaml"))) + 1


def test_the_text_form_is_exported_as_it_came(topics: OwnTopics, tmp_path: Path) -> None:
    env = topics.environment
    (tmp_path / "simple.txt").write_text(TEXT)
    applied = fraud("rules", "save", "--direct", str(tmp_path / "simple.txt"), env=env)
    assert (applied.exit_code, "warning: --direct bypasses" in applied.err) == (0, True)
    exported = fraud("rules", "export", "--format", "text", env=env)
    assert (exported.out, exported.err) == (TEXT, "")


def test_a_control_asks_before_it_clears(topics: OwnTopics) -> None:
    env = topics.environment
    person, terminal = os.openpty()
    os.write(person, b"n\n")
    command = [sys.executable, "-m", "fraud_rules.cli", "rules", "control", "CLEAR_STATE_ALL", "--direct"]
    asked = subprocess.run(command, env={**os.environ, **env}, stdin=terminal, capture_output=True, check=False)
    os.close(terminal)
    os.close(person)
    assert asked.returncode == 1, asked
    assert b"CLEAR_STATE_ALL cannot be undone. Write it?" in asked.stdout + asked.stderr
    assert read_all(topics.bootstrap, topics.names.rules) == []
    assert fraud("rules", "control", "--direct", "CLEAR_STATE_ALL", "--yes", env=env).exit_code == 0
    assert fraud("rules", "control", "--direct", "EXPORT_RULES_CURRENT", env=env).exit_code == 0
    kinds = [
        json.loads(message.value() or b"")["controlType"] for message in read_all(topics.bootstrap, topics.names.rules)
    ]
    assert kinds == ["CLEAR_STATE_ALL", "EXPORT_RULES_CURRENT"]


def test_refused_records_are_found_newest_first_among_unreadable_reports(topics: OwnTopics) -> None:
    def report(version: int, status: str, **more: object) -> bytes:
        return json.dumps({"ruleVersion": version, "status": status, "batchId": 1, "time": 1, **more}).encode()

    why = [{"field": "windowMinutes", "message": "is required"}]
    records = [
        report(0, "REJECTED", ruleId=None, reasons=why),
        b"{",
        report(1, "LIVE", ruleId=7),
        None,
        report(2, "REJECTED", ruleId=7, reasons=why),
    ]
    produce(topics.bootstrap, topics.names.rule_operations, records)
    refused = read_rejected(topics.kafka, topics.names.rule_operations)
    assert [(each.rule_version, each.rule_id, each.reasons[0].field) for each in refused] == [
        (2, 7, "windowMinutes"),
        (0, None, "windowMinutes"),
    ]
    assert [each.rule_version for each in read_rejected(topics.kafka, topics.names.rule_operations, 1)] == [2]
    listed = fraud("rules", "list", env=topics.environment).out
    assert "no rules are in force" in listed
    shown = [line.split() for line in listed.splitlines() if "windowMinutes: is required" in line]
    assert [line[:2] for line in shown] == [["2", "7"], ["0", "unreadable"]]


def _without(document: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in document.items() if name not in names}

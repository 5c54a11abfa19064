"""The work of two users and a program with the commands that use the API, at any address of a control plane."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.record_writer import append_records
from tests.support.control_plane.alerts import alert_json
from tests.support.control_plane.web.server import RULE
from tests.support.control_plane.web.terminal import Terminal
from tests.support.waiting import until

ALERTS = 20


def work(terminal: Terminal, kafka: KafkaConnection, alerts: str) -> None:
    """Work as the administrator `admin`, the analyst `anna` and a program of hers, with four eyes. The store is empty,
    and `alerts` is the topic of alerts."""
    folder = terminal.folder
    _log_in(terminal, folder)
    rule_id = _rules(terminal, folder)
    _lists(terminal, folder)
    _labels(terminal, folder)
    _tokens(terminal, folder)
    append_records(kafka, alerts, [(b"k", _alert(number)) for number in range(1, ALERTS + 1)])
    _alerts(terminal, folder)
    assert "ControlPlane" not in terminal.run("anna", "rules", "show", str(rule_id + 1), code=34)


def _log_in(terminal: Terminal, folder: Path) -> None:
    assert "run `fraud login`" in terminal.run("anna", "rules", "list", code=3)
    (folder / "anna.token").write_text("an old token\n")
    (folder / "anna.token").chmod(0o600)
    assert "run `fraud login`" in terminal.run("anna", "rules", "list", code=36)
    for user, login in (("anna", "anna"), ("admin", "admin")):
        terminal.run(user, "login", "--user", login)
    assert stat.S_IMODE((folder / "anna.token").stat().st_mode) == 0o600
    assert "refuses the user" in terminal.run("bert", "login", "--user", "bert", code=36)
    unknown = Terminal("http://127.0.0.1:1", folder)
    assert "does not answer" in unknown.run("anna", "rules", "list", code=37)


def _rules(terminal: Terminal, folder: Path) -> int:
    """Save, show, request, approve, pause and roll back a rule. Returns its id."""
    path = folder / "rules.json"
    path.write_text(json.dumps([{**RULE, "ruleId": 7}]))
    assert "7" in terminal.run("anna", "rules", "save", str(path), "--dry-run")
    assert json.loads(terminal.run("anna", "rules", "list", "--json")) == []
    terminal.run("anna", "rules", "save", str(path), "--comment", "a first one")
    (row,) = json.loads(terminal.run("anna", "rules", "list", "--json"))
    assert (row["ruleId"], row["state"]) == (7, "DRAFT")
    assert "groupingKeyNames" in terminal.run("anna", "rules", "show", "7")
    path.write_text(json.dumps([{**RULE, "ruleId": 8, "limit": "much"}]))
    assert "limit" in terminal.run("anna", "rules", "save", "-", "--dry-run", stdin=path.read_text())
    assert "was saved: see the reasons" in terminal.run("anna", "rules", "save", str(path), code=33)
    assert "SHADOW" in terminal.run("anna", "rules", "move", "7", "SHADOW")
    assert "waits for approval" in terminal.run("anna", "rules", "move", "7", "ACTIVE", "--comment", "go")
    (waiting,) = json.loads(terminal.run("admin", "approvals", "list", "--json"))
    request = str(waiting["id"])
    terminal.run("anna", "approvals", "approve", request, code=36)
    assert "approved" in terminal.run("admin", "approvals", "approve", request)
    paused = json.loads(terminal.run("admin", "rules", "move", "7", "PAUSE", "--json"))
    assert (paused["state"], paused["waitsForApproval"]) == ("PAUSE", False)
    assert "revision" in terminal.run("admin", "rules", "rollback", "7", "1")
    assert "state the reason" in terminal.run("anna", "rules", "move", "7", "ACTIVE", code=2)
    asked = json.loads(terminal.run("anna", "rules", "move", "7", "ACTIVE", "--comment", "again", "--json"))
    assert (asked["ruleId"], asked["waitsForApproval"]) == (7, True)
    (waiting,) = json.loads(terminal.run("admin", "approvals", "list", "--json"))
    rejected = json.loads(terminal.run("admin", "approvals", "reject", str(waiting["id"]), "--json"))
    assert (rejected["id"], rejected["decision"]) == (waiting["id"], "REJECTED")
    assert "groupingKeyNames" in terminal.run("anna", "rules", "export")
    return 7


def _lists(terminal: Terminal, folder: Path) -> None:
    assert terminal.run("anna", "lists", "list") == "there are no lists\n"
    terminal.run("anna", "lists", "show", "mules", code=34)
    assert "2 values" in terminal.run("anna", "lists", "set", "mules", "1001", "1002")
    path = folder / "mules.txt"
    path.write_text("1003\n# a comment\n1004\n")
    assert "4 values" in terminal.run("anna", "lists", "add", "mules", "--file", str(path))
    changed = json.loads(terminal.run("anna", "lists", "remove", "mules", "1001", "--json"))
    assert (changed["name"], changed["size"], changed["waitsForApproval"]) == ("mules", 3, False)
    assert terminal.run("anna", "lists", "show", "mules").split() == ["1002", "1003", "1004"]
    assert "number" in terminal.run("anna", "lists", "add", "mules", "many", code=2)
    assert "give values, or --file" in terminal.run("anna", "lists", "add", "mules", code=2)
    assert "2 values" in terminal.run("anna", "lists", "set", "mules", "--file", str(path))
    assert "delete it first" in terminal.run("anna", "lists", "set", "mules", "x", "--type", "string", code=2)
    shown = json.loads(terminal.run("anna", "lists", "show", "mules", "--json"))
    assert (shown["name"], shown["values"]) == ("mules", [1003, 1004])
    (folder / "lists.yaml").write_text(terminal.run("anna", "lists", "export").replace("1004", "1005"))
    assert "changed" in terminal.run("anna", "lists", "save", str(folder / "lists.yaml"))
    assert "1005" in terminal.run("anna", "lists", "show", "mules")
    deleted = json.loads(terminal.run("admin", "lists", "delete", "mules", "--json"))
    assert deleted == {"name": "mules", "deleted": True, "waitsForApproval": False}


def _labels(terminal: Terminal, folder: Path) -> None:
    path = folder / "chargebacks.csv"
    path.write_text("transaction,label,time,source\n1,FRAUD,2026-11-20,chargeback\n2,0,,\n3,perhaps,,\n")
    said = terminal.run("anna", "labels", "load", str(path))
    assert said == "saved 1 fraud, 1 not fraud\nskipped 1: unknown label\n"
    assert json.loads(terminal.run("anna", "labels", "load", str(path), "--json"))["skipped"] == {"unknown label": 1}
    assert "must end in" in terminal.run("anna", "labels", "load", str(folder / "labels.parquet"), code=2)
    path.write_text("transaction,label\n")
    assert "it is empty" in terminal.run("anna", "labels", "load", str(path), code=2)


def _tokens(terminal: Terminal, folder: Path) -> None:
    """A program works through Airflow with a token, which its owner creates, sees and revokes."""
    assert terminal.run("anna", "tokens", "list") == "there are no tokens\n"
    terminal.run("anna", "tokens", "create", "ci", "--role", "admin", code=36)
    secret = terminal.run("anna", "tokens", "create", "ci", "--role", "analyst", "--days", "7").splitlines()[0]
    (folder / "ci.token").touch(mode=0o600)
    (folder / "ci.token").write_text(secret)
    (row,) = json.loads(terminal.run("admin", "tokens", "list", "--json"))
    assert (row["owner"], row["name"], row["role"]) == ("anna", "ci", "analyst")
    assert secret not in terminal.run("anna", "tokens", "list")
    assert "1 value" in terminal.run("ci", "lists", "set", "of-a-program", "1001")
    assert "log in as a person" in terminal.run("ci", "tokens", "create", "more", "--role", "viewer", code=36)
    assert "revoked" in terminal.run("anna", "tokens", "revoke", row["id"])
    error = terminal.run("ci", "lists", "list", code=36)
    assert "fraud tokens create" in error and "run `fraud login`" not in error and secret not in error
    terminal.run("anna", "tokens", "revoke", row["id"], code=34)


def _alert(number: int) -> bytes:
    return alert_json(number, triggeringEvent={"transactionId": number, "paymentAmount": f"{number}.5"})


def _alerts(terminal: Terminal, folder: Path) -> None:
    alert_id = json.loads(alert_json(1))["alertId"]

    def search(*words: str) -> list[str]:
        exported = terminal.run("anna", "alerts", "export", *words)
        return [each["alertId"] for each in csv.DictReader(exported.splitlines())]

    until(lambda: len(search("since=30d", "sort=amount")) == ALERTS, "the index has all alerts", every_s=1)
    assert len(search("sort=oldest", "--limit", str(ALERTS - 1))) == ALERTS - 1
    assert search("maxAmount=2", "minAmount=1") == [alert_id]
    assert search("maxAmount=0.001") == search("shadow=true") == search("corrections=true") == []
    assert len(set(search("shadow=false", "corrections=false", "snoozed=true"))) == ALERTS
    assert search("caseId=2000000000") == []
    assert json.loads(terminal.run("anna", "alerts", "mark", alert_id, "NOT_FRAUD", "--json")) == {
        "alertId": alert_id,
        "verdict": "NOT_FRAUD",
    }
    assert "FRAUD" in terminal.run("anna", "alerts", "mark", alert_id, "FRAUD")
    assert search("verdict=NOT_FRAUD") == []
    output = folder / "alerts.csv"
    terminal.run("anna", "alerts", "export", "verdict=FRAUD", "--output", str(output))
    assert alert_id in output.read_text()
    terminal.run("anna", "alerts", "mark", alert_id, "UNREVIEWED")

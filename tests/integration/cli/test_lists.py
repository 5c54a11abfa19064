"""`fraud lists`, on a real rule log."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all
from tests.support.places import ROOT
from tests.support.processes.fraud_command import fraud
from tests.support.rules import count_rule

TOPIC_ROLES = ("rule_operations", "rules")

RULE = count_rule(11, limitOperatorType=">", limit=0, windowMinutes=20, when="beneficiaryId in list('mules')")


def test_lists_and_rules_are_saved_without_a_control_plane(topics: OwnTopics, tmp_path: Path) -> None:
    kafka, values = topics.environment, tmp_path / "mules.yaml"
    rule = _rule_file(tmp_path)
    assert fraud("lists", "list", env=kafka).out.endswith("there are no lists\n")
    missing = fraud("rules", "save", "--direct", str(rule), env=kafka)
    assert (missing.exit_code, "when: there is no list 'mules'" in missing.err) == (4, True)
    for members, version in (([7, 8, 9], 0), ([7, 8, 10], 2), ([8, 10], 3)):
        values.write_text(json.dumps({"listName": "mules", "listType": "long", "values": members}))
        assert fraud("lists", "save", "--direct", str(values), env=kafka).out == f"list mules: version {version}\n"
    assert fraud("rules", "save", "--direct", str(rule), env=kafka).exit_code == 0
    about = {"listName": "mules", "listType": "long", "size": 2, "version": 3, "rules": [11]}
    assert json.loads(fraud("lists", "list", "--json", env=kafka).out) == [about]
    values.write_text(json.dumps({"listName": "mules", "listType": "string", "values": ["x"]}))
    refused = fraud("lists", "save", "--direct", str(values), env=kafka)
    assert (refused.exit_code, "rule 11 uses it" in refused.err) == (4, True)
    written = [json.loads(record.value() or b"") for record in read_all(topics.bootstrap, topics.names.rules)]
    assert [(each["listOperation"], each["values"]) for each in written[:4]] == [
        ("SET", [7, 8, 9]), ("ADD", [10]), ("REMOVE", [9]), ("REMOVE", [7]),
    ]  # fmt: skip


def test_seed_files_are_applied_once(topics: OwnTopics, tmp_path: Path) -> None:
    kafka = topics.environment
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "a.yaml").write_text("listName: mules\nlistType: long\nvalues: [7, 8]\n")
    (folder / "b.json").write_text('{"listName": "types", "listType": "string", "values": ["CSH"]}')
    assert fraud("lists", "save", "--direct", str(folder), env=kafka).out.count("version") == 2
    assert fraud("lists", "save", "--direct", str(folder), env=kafka).out.count("is unchanged") == 2
    (folder / "b.json").write_text('{"listName": "Types", "listType": "long", "values": ["CSH"]}')
    refused = fraud("lists", "save", "--direct", str(folder), env=kafka)
    assert "b.json, list 1: listName:" in refused.err and "b.json, list 1: values:" in refused.err
    assert fraud("lists", "save", "--direct", str(ROOT / "config" / "lists"), env=kafka).exit_code == 0


def test_an_export_is_compared_and_applied(topics: OwnTopics, tmp_path: Path) -> None:
    kafka = topics.environment
    exported = tmp_path / "lists.txt"
    exported.write_text('mules,long,7\nmules,long,8\ntypes,string,"a, b"\n')
    assert fraud("lists", "save", "--direct", str(exported), env=kafka).exit_code == 0
    assert fraud("lists", "export", "--format", "text", "--output", str(exported), env=kafka).exit_code == 0
    assert exported.read_text() == 'mules,long,7\nmules,long,8\ntypes,string,"a, b"\n'
    assert fraud("lists", "export", env=kafka).out.splitlines()[0] == "- listName: mules"
    exported.write_text("mules,long,8\nmules,long,9\nnew,long,1\n")
    assert fraud("lists", "save", "--direct", str(exported), "--dry-run", env=kafka).out.splitlines() == [
        "list mules would be changed: 1 values added, 1 removed", "  - 7", "  + 9",
        "list new would be added: 1 values added, 0 removed", "  + 1",
    ]  # fmt: skip
    exported.write_text("mules,long,8\nhello\nmules,long,x\n")
    refused = fraud("lists", "save", "--direct", str(exported), env=kafka)
    assert "line 2: a line has the form" in refused.err and "line 3: must be a whole number" in refused.err
    exported.write_text("new,long,1\nmules,string,a\n")
    assert fraud("rules", "save", "--direct", str(_rule_file(tmp_path)), env=kafka).exit_code == 0
    assert "nothing was written" in fraud("lists", "save", "--direct", str(exported), env=kafka).err


def _rule_file(folder: Path) -> Path:
    path = folder / "rule.json"
    path.write_text(json.dumps(RULE))
    return path

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


def test_a_list_is_set_changed_shown_and_deleted(topics: OwnTopics, tmp_path: Path) -> None:
    kafka = topics.environment
    values, rule = tmp_path / "mules.txt", tmp_path / "rule.json"
    values.write_text("# known mules\n7\n8\n\n7\n")
    rule.write_text(json.dumps(RULE))
    assert fraud("lists", "list", env=kafka).out.endswith("there are no lists\n")
    missing = fraud("rules", "save", "--direct", str(rule), env=kafka)
    assert (missing.exit_code, "when: there is no list 'mules'" in missing.err) == (4, True)
    assert "there is no list mules" in fraud("lists", "add", "--direct", "mules", "7", env=kafka).err
    assert fraud("lists", "set", "--direct", "mules", "--file", str(values), env=kafka).out == "list mules: version 0\n"
    assert fraud("lists", "set", "--direct", "mules", "7", "8", env=kafka).out == "list mules is unchanged\n"
    assert fraud("lists", "add", "--direct", "mules", "9", "8", env=kafka).out == "list mules: version 1\n"
    assert fraud("lists", "remove", "--direct", "mules", "7", env=kafka).out == "list mules: version 2\n"
    assert fraud("lists", "show", "mules", env=kafka).out == "8\n9\n"
    assert fraud("rules", "save", "--direct", str(rule), env=kafka).exit_code == 0
    shown = json.loads(fraud("lists", "show", "mules", "--json", env=kafka).out)
    about = {"listName": "mules", "listType": "long", "size": 2, "version": 2, "rules": [11]}
    assert shown == {**about, "values": [8, 9]}
    assert json.loads(fraud("lists", "list", "--json", env=kafka).out) == [about]
    assert "cannot delete the list: rule 11 uses it" in fraud("lists", "delete", "--direct", "mules", env=kafka).err
    refused = fraud("lists", "set", "--direct", "mules", "x", "--type", "string", env=kafka)
    assert (refused.exit_code, "rule 11 uses it" in refused.err) == (4, True)
    assert fraud("rules", "control", "--direct", "DELETE_RULES_ALL", "--yes", env=kafka).exit_code == 0
    assert fraud("lists", "delete", "--direct", "mules", env=kafka).out == "list mules: version 5\n"
    written = [json.loads(record.value() or b"") for record in read_all(topics.bootstrap, topics.names.rules)]
    assert [each["values"] for each in written[:3]] == [[7, 8], [9], [7]]


def test_values_of_the_wrong_type_and_missing_values_are_refused(topics: OwnTopics, tmp_path: Path) -> None:
    kafka = topics.environment
    assert (
        "1 of 2 values are not whole numbers: 'x'"
        in fraud("lists", "set", "--direct", "mules", "7", "x", env=kafka).err
    )
    values = tmp_path / "mules.txt"
    values.write_text("# known\n7\nx\n")
    assert "line 3: 'x'" in fraud("lists", "set", "--direct", "mules", "--file", str(values), env=kafka).err
    assert "give values, or --file" in fraud("lists", "set", "--direct", "mules", env=kafka).err
    assert "a list's name has the form" in fraud("lists", "set", "--direct", "Mules", "7", env=kafka).err


def test_a_long_list_comes_as_a_set_and_adds(topics: OwnTopics, tmp_path: Path) -> None:
    kafka = topics.environment
    values = tmp_path / "values.txt"
    values.write_text("".join(f"{10**12 + position}\n" for position in range(150_000)))
    assert fraud("lists", "set", "--direct", "mules", "--file", str(values), env=kafka).out == "list mules: version 2\n"
    written = [json.loads(record.value() or b"") for record in read_all(topics.bootstrap, topics.names.rules)]
    assert [each["listOperation"] for each in written] == ["SET", "ADD", "ADD"]


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
    assert fraud("lists", "set", "--direct", "mules", "7", "8", env=kafka).exit_code == 0
    assert fraud("lists", "set", "--direct", "types", "a, b", "--type", "string", env=kafka).exit_code == 0
    assert fraud("lists", "export", "--format", "text", "--output", str(exported), env=kafka).exit_code == 0
    assert exported.read_text() == 'mules,long,7\nmules,long,8\ntypes,string,"a, b"\n'
    assert fraud("lists", "export", env=kafka).out.splitlines()[0] == "- listName: mules"
    exported.write_text("mules,long,8\nmules,long,9\nnew,long,1\n")
    assert fraud("lists", "save", "--direct", str(exported), "--dry-run", env=kafka).out.splitlines() == [
        "list mules would be changed: 1 values added, 1 removed", "  - 7", "  + 9",
        "list new would be added: 1 values added, 0 removed", "  + 1",
    ]  # fmt: skip
    assert fraud("lists", "show", "mules", env=kafka).out == "7\n8\n"
    exported.write_text("mules,long,8\nhello\nmules,long,x\n")
    refused = fraud("lists", "save", "--direct", str(exported), env=kafka)
    assert "line 2: a line has the form" in refused.err and "line 3: must be a whole number" in refused.err
    exported.write_text("new,long,1\nmules,string,a\n")
    assert fraud("rules", "save", "--direct", str(_rule_file(tmp_path)), env=kafka).exit_code == 0
    assert "nothing was written" in fraud("lists", "save", "--direct", str(exported), env=kafka).err
    assert "there is no list new" in fraud("lists", "show", "new", env=kafka).err


def _rule_file(folder: Path) -> Path:
    path = folder / "rule.json"
    path.write_text(json.dumps(RULE))
    return path

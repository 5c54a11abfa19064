"""Files of rules in their three forms, and the seed rules that are shipped."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from fraud_rules.codec.rules.apply import validate_files
from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import InputInvalid, RuleRejected
from fraud_rules.model.rule import Rule, RuleState
from tests.support.places import ROOT
from tests.support.rules import DEMO_RULE, LIMITS, SCHEMA, record

CONFIG = ROOT / "config"

YAML_RULE = """
ruleId: 1
ruleState: ACTIVE
groupingKeyNames: [payeeId, beneficiaryId]
unique: []
aggregateFieldName: paymentAmount
aggregatorFunctionType: SUM
limitOperatorType: GREATER
limit: 20
windowMinutes: 20
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("one.yaml", YAML_RULE, 1),
        ("list.yml", "- " + YAML_RULE.strip().replace("\n", "\n  "), 1),
        ("under.yaml", "rules:\n- " + YAML_RULE.strip().replace("\n", "\n  "), 1),
        ("one.json", json.dumps(DEMO_RULE, indent=2), 1),
        ("list.json", json.dumps([DEMO_RULE, DEMO_RULE]), 2),
        ("under.json", json.dumps({"rules": [DEMO_RULE, DEMO_RULE, DEMO_RULE]}), 3),
        ("lines.jsonl", (json.dumps(DEMO_RULE) + "\n") * 2, 2),
        ("marked.json", "\ufeff" + json.dumps(DEMO_RULE), 1),
        (
            "demo.txt",
            "# a comment\n\n1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(GREATER),(20),(20)\n",
            1,
        ),
    ],
)
def test_every_form_gives_the_same_rule(tmp_path: Path, name: str, text: str, count: int) -> None:
    records = read_rule_file(written(tmp_path, name, text))
    assert [entry.where for entry in records] == [f"{name}, rule {place}" for place in range(1, count + 1)]
    for entry in records:
        assert parse_rule_record(entry.value, SCHEMA, LIMITS) == parse_rule_record(record(), SCHEMA, LIMITS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one.yaml", YAML_RULE.replace("limit: 20", "limit: 0.1000000000000000000000000001")),
        ("list.json", f"[{record(limit='?').decode()}]".replace('"?"', "0.1000000000000000000000000001")),
    ],
)
def test_numbers_keep_their_digits(tmp_path: Path, name: str, text: str) -> None:
    (only,) = read_rule_file(written(tmp_path, name, text))
    rule = parse_rule_record(only.value, SCHEMA, LIMITS)
    assert isinstance(rule, Rule)
    assert rule.limit == Decimal("0.1000000000000000000000000001")


def test_an_invalid_rule_is_still_a_record_for_validation(tmp_path: Path) -> None:
    path = written(tmp_path, "wrong.json", '{"ruleId": 1, "ruleId": 2, "limit": NaN}')
    with pytest.raises(RuleRejected) as rejected:
        parse_rule_record(read_rule_file(path)[0].value, SCHEMA, LIMITS)
    assert {"ruleId", "limit", "ruleState"} <= {reason.field for reason in rejected.value.reasons}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "rule 1 is not a mapping"),
        ("a.yaml", "[]", "holds no rules"),
        ("a.yaml", "- 1", "rule 1 is not a mapping"),
        ("a.yaml", "a: [", "expected the node content"),
        ("a.yaml", "limit: 1\nlimit: 2", "'limit' is given twice"),
        ("a.yaml", "limit: 0x10", "'0x10' is not a number that a rule can hold"),
        ("a.yaml", "limit: 1_000", "'1_000' is not a number"),
        ("a.yaml", "limit: .inf", "'.inf' is not a number"),
        ("a.yaml", "a: {null: 1}", "Only dicts with"),
        ("a.yaml", "1: 2", "rule 1 is not a mapping of members"),
        ("a.yaml", "a: &x [1]\nb: *x", "holds a YAML alias"),
        ("a.yaml", "a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a.yaml", "a: " + "[" * 5_000, "recursion"),
        ("a.json", "[1]", "rule 1 is not a mapping"),
        ("a.json", '[{"a": 1, "a": 2}]', "'a' is given twice"),
        ("a.json", '[{"a": NaN}]', "'NaN' is not a number"),
        ("a.json", "[" + "9" * 5_000 + "]", "is not a number that a rule can hold"),
        ("a.json", "[" * 50_000, "recursion"),
        ("a.json", '{"a": ', "Expecting value"),
        ("a.json", '[{"name": "\\ud800"}]', "surrogates not allowed"),
        ("a.txt", "\n# only a comment\n", "holds no rules"),
    ],
)
def test_a_file_that_holds_no_rules_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputInvalid, match=name) as invalid:
        read_rule_file(written(tmp_path, name, text))
    assert message in str(invalid.value)
    assert "\n" not in str(invalid.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe1")
    for name in ("missing.yaml", "latin.txt"):
        with pytest.raises(InputInvalid, match=f"{name}: cannot be read"):
            read_rule_file(tmp_path / name)


def test_the_seed_rules_are_valid_named_and_numbered_as_their_files() -> None:
    limits = DetectorSettings.load(CONFIG / "detector.yaml", {}).limits
    rules = []
    for path in sorted((CONFIG / "rules").glob("*.yaml")):
        (entry,) = read_rule_file(path)
        rule = parse_rule_record(entry.value, SCHEMA, limits)
        assert isinstance(rule, Rule)
        assert path.name.startswith(f"{rule.rule_id}-")
        assert rule.source == "seed"
        assert {"name", "description", "severity", "owner"} <= set(rule.document)
        rules.append(rule)
    assert sum(rule.state is RuleState.ACTIVE for rule in rules) >= 5
    assert sum(rule.state is RuleState.SHADOW for rule in rules) == 1


@pytest.mark.parametrize("second", [DEMO_RULE, {**DEMO_RULE, "limit": 99}, {"ruleId": 1, "ruleState": "DELETE"}])
def test_a_rule_occurs_once_in_the_files_that_are_applied_together(tmp_path: Path, second: dict[str, object]) -> None:
    files = [written(tmp_path, "a.json", json.dumps(DEMO_RULE)), written(tmp_path, "b.json", json.dumps(second))]
    first, again = validate_files(files, SCHEMA, LIMITS)

    assert (first.change is not None, again.change) == (True, None)
    assert [str(reason) for reason in again.reasons] == [
        "ruleId: 1 is the rule of a.json, rule 1 too; keep one of the records"
    ]


def test_controls_may_occur_again(tmp_path: Path) -> None:
    control = {"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}
    found = validate_files([written(tmp_path, "a.json", json.dumps([control, control]))], SCHEMA, LIMITS)

    assert [each.reasons for each in found] == [(), ()]

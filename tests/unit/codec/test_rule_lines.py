"""A rule in words, and its text form. The tests of the pages use the same cases."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.codec.rules.export import RuleFormat, export_rules
from fraud_rules.codec.rules.members import MEMBERS
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.codec.rules.text import read_text_form
from fraud_rules.configuration.project import Project
from fraud_rules.errors import InputInvalid
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema

LINE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50.30),(20)\n"
CONDITION = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 3, "windowMinutes": 60}
WITH_MEMBER: dict[str, dict[str, object]] = {
    "ruleId": {"ruleId": 2},
    "ruleState": {"ruleState": "SHADOW"},
    "groupingKeyNames": {"groupingKeyNames": ["beneficiaryId", "payeeId"]},
    "unique": {"unique": ["beneficiaryId"], "aggregatorFunctionType": "COUNT_DISTINCT"},
    "aggregateFieldName": {"aggregateFieldName": "COUNT_FLINK"},
    "aggregatorFunctionType": {"aggregatorFunctionType": "MAX"},
    "limitOperatorType": {"limitOperatorType": "="},
    "limit": {"limit": Decimal("0.10")},
    "windowMinutes": {"windowMinutes": 1_440},
    "windowSeconds": {"windowSeconds": 90, "windowMinutes": None},
    "windowCalendar": {"windowCalendar": "WEEK", "windowMinutes": None},
    "zone": {"zone": "Asia/Tokyo", "windowCalendar": "DAY", "windowMinutes": None},
    "resolutionSeconds": {"resolutionSeconds": 60},
    "controlType": {"controlType": None},
    "cooldownSeconds": {"cooldownSeconds": 60},
    "action": {"action": "RESTRICT"},
    "disabled": {"disabled": False},
    "filter": {"filter": "payeeId = 1"},
    "when": {"when": "payeeId = 1"},
    "baseline": {"baseline": {"windowMinutes": 60}},
    "conditions": {"conditions": [CONDITION]},
    "require": {"require": "none", "conditions": [CONDITION]},
    "rolloutPercent": {"rolloutPercent": 20},
    "name": {"name": "Mules"},
    "description": {"description": "Payments to mules"},
    "severity": {"severity": "critical"},
    "weight": {"weight": 100},
    "owner": {"owner": "ann"},
    "source": {"source": "seed"},
    "force": {"force": True},
    "warmUp": {"warmUp": True},
}
"""Each member of a rule, with the other members that it needs. A rule cannot have `controlType`."""
EXPRESSED = {*list(WITH_MEMBER)[:9], "controlType"}
CASES = json.loads((Path(__file__).parents[2] / "corpus" / "rule_lines.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"])
def test_a_rule_in_words(case: dict[str, object], project: Project) -> None:
    document = case["document"]
    assert isinstance(document, dict)
    schema = TransactionSchema.load(project.config / "schema.yaml")
    rule = parse_rule_document(document, schema, RuleLimits())
    assert isinstance(rule, Rule)
    assert rule_sentence(rule, schema) == case["words"]


@pytest.mark.parametrize("member", MEMBERS)
def test_the_text_form_expresses_a_member_or_refuses_it_by_name(member: str, project: Project) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    document = read_text_form(LINE.strip()) | WITH_MEMBER[member]
    rule = parse_rule_document(document, schema, RuleLimits())
    assert isinstance(rule, Rule)
    if member in EXPRESSED:
        line = export_rules([rule], RuleFormat.TEXT)
        assert parse_rule_document(read_text_form(line.strip()), schema, RuleLimits()) == rule
    elif member == "source":
        assert export_rules([rule], RuleFormat.TEXT) == LINE, "the tool that reads the file names the source"
    else:
        with pytest.raises(
            InputInvalid,
            match=f"rule 1 has (windowCalendar, |conditions, )?{member}, which cannot be expressed in one line",
        ):
            export_rules([rule], RuleFormat.TEXT)


def test_the_text_form_refuses_a_limit_that_is_an_expression(project: Project) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    rule = parse_rule_document(read_text_form(LINE.strip()) | {"limit": "paymentAmount * 2"}, schema, RuleLimits())
    assert isinstance(rule, Rule)
    with pytest.raises(InputInvalid, match="rule 1 has an expression as its limit, which cannot be expressed"):
        export_rules([rule], RuleFormat.TEXT)

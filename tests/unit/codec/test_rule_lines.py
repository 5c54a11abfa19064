"""A rule in one line, and in words. The tests of the pages use the same cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.codec.rules.export import describe
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.configuration.project import Project
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema

CASES = json.loads((Path(__file__).parents[2] / "corpus" / "rule_lines.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"])
def test_a_rule_in_one_line_and_in_words(case: dict[str, object], project: Project) -> None:
    document = case["document"]
    assert isinstance(document, dict)
    schema = TransactionSchema.load(project.config / "schema.yaml")
    rule = parse_rule_document(document, schema, RuleLimits())
    assert isinstance(rule, Rule)
    assert describe(rule) == case["says"]
    assert rule_sentence(rule, schema) == case["words"]

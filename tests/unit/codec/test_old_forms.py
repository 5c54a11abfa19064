"""A rule of the log keeps the forms that only earlier editions allowed, and a start of the detector reports it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import RuleLimits, parse_rule_record, read_entry
from fraud_rules.codec.rules.old_forms import old_form_reports
from fraud_rules.errors import RuleRejected
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.places import ROOT
from tests.support.rules import count_rule, rule_log

DEFAULT = TransactionSchema.load(ROOT / "config" / "schema.yaml")
SCHEMA = TransactionSchema((*DEFAULT.fields, Field("like", FieldType.LONG)))
LIMITS = RuleLimits()
RULE = count_rule(limit=10, windowMinutes=20)


def reports(*rules: Mapping[str, Any]) -> list[str]:
    """The reports about the rules in force of a log with these records."""
    timeline = rule_log([{**RULE, **members} for members in rules], 1_000, SCHEMA)
    return list(old_form_reports([each.rule for each in timeline.latest.rules.values()], SCHEMA, LIMITS))


@pytest.mark.parametrize(
    ("members", "report"),
    [
        ({"filter": "payeeId > +3"}, "filter: '+3' has a plus"),
        ({"when": "eventTime > 1700000000000.5"}, "when: 1700000000000.5 is no whole number of milliseconds"),
        ({"filter": "like = 3"}, "filter: 'like' is a word of the language"),
    ],
)
def test_a_rule_with_an_old_form_is_in_force_and_reported(members: Mapping[str, Any], report: str) -> None:
    (found,) = reports(members, {"ruleId": 2})
    assert found.startswith("rule 1 keeps its old meaning until its next edit, which must change this: ")
    assert report in found


def test_an_edit_without_the_old_form_ends_the_reports() -> None:
    old = {"filter": "payeeId > +3"}
    with pytest.raises(RuleRejected, match="has a plus"):
        parse_rule_record(json.dumps({**RULE, **old}).encode(), SCHEMA, LIMITS)
    assert reports(old, {"filter": "payeeId > 3"}) == []


@pytest.mark.parametrize("text", ["1 = 1", f"payeeId < {'9' * 39}"])
def test_no_edition_of_this_product_allowed_a_condition_without_a_field_or_39_digits(text: str) -> None:
    entry = read_entry(0, 1_000, json.dumps({**RULE, "filter": text}).encode(), SCHEMA, LIMITS)
    assert [reason.field for reason in entry.reasons] == ["filter"]

"""Warnings about texts in a rule's conditions that the schema does not know."""

from __future__ import annotations

import pytest

from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.codec.rules.known_values import unknown_values
from fraud_rules.configuration.project import Project
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema
from tests.support.rules import count_rule

KNOWN = "paymentType has the known values CSH, CRD, but not "


@pytest.mark.parametrize(
    ("members", "warnings"),
    [
        ({"filter": "paymentType = 'CSH'"}, []),
        ({"filter": "paymentType = 'CASH'"}, [("filter", f"{KNOWN}'CASH'")]),
        ({"filter": "not (paymentAmount > 5 and paymentType != 'x')"}, [("filter", f"{KNOWN}'x'")]),
        ({"when": "paymentType in ('CRD', 'y', 'z')"}, [("when", f"{KNOWN}'y'"), ("when", f"{KNOWN}'z'")]),
        ({"baseline": {"windowMinutes": 60, "filter": "paymentType = 'q'"}}, [("baseline.filter", f"{KNOWN}'q'")]),
        ({"filter": "paymentType > 'A'"}, []),
    ],
)
def test_a_text_that_the_schema_does_not_list_is_a_warning(
    members: dict[str, object], warnings: list[tuple[str, str]], project: Project
) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    document = count_rule(limit=3, windowMinutes=10)
    rule = parse_rule_document(document | members, schema, RuleLimits())
    assert isinstance(rule, Rule)
    assert [(each.field, each.message) for each in unknown_values(rule, schema)] == warnings

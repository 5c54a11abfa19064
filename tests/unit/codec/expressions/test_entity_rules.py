"""Rules that group by an entity: where its name and `role` may stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import encode_document, parse_rule_record
from fraud_rules.codec.rules.known_values import unknown_values
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
RULE: dict[str, Any] = {
    "ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["country", "account"], "aggregatorFunctionType": "SUM",
    "aggregateFieldName": "paymentAmount", "limitOperatorType": ">", "limit": 100, "windowMinutes": 60,
}  # fmt: skip


def read(**members: Any) -> Rule:
    rule = parse_rule_record(json.dumps({**RULE, **members}).encode(), SCHEMA, RuleLimits())
    assert isinstance(rule, Rule)
    return rule


def reasons(**members: Any) -> list[str]:
    with pytest.raises(RuleRejected) as rejected:
        read(**members)
    return [str(each) for each in rejected.value.reasons]


def test_the_name_of_an_entity_is_a_member_of_the_key() -> None:
    rule = read()
    assert (rule.grouping, rule.roles) == (("account", "country"), 2)
    assert read(groupingKeyNames=["payerId"]).roles == 1
    assert parse_rule_record(encode_document(rule.document), SCHEMA, RuleLimits()) == rule


def test_role_is_a_text_of_each_expression() -> None:
    rule = read(
        filter="role = 'in'",
        when="role != 'in' and length(role) > 1",
        limit="length(role) * 100",
        conditions=[
            {
                "aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": "length(role)",
                "windowMinutes": 1, "filter": "role in ('out', 'in')",
            }
        ],
    )  # fmt: skip
    assert str(rule.filter) == "role = 'in'"
    assert "role" in rule.fields
    assert read(baseline={"windowMinutes": 5, "filter": "role = 'out'"}, limit=3).baseline is not None
    assert read(rolloutPercent=50).rollout is not None


def test_a_role_that_the_entity_does_not_have_is_a_warning() -> None:
    rule = read(filter="role = 'inn'")
    assert [each.message for each in unknown_values(rule, SCHEMA)] == [
        "role has the known values out, in, but not 'inn'"
    ]


def test_an_undecoded_record_has_its_grouping() -> None:
    entry = EntryReader(SCHEMA, RuleLimits()).read(0, 1, json.dumps(RULE).encode())
    assert entry.grouping == ("account", "country")


def test_the_sentence_of_a_rule_names_the_entity() -> None:
    assert rule_sentence(read(groupingKeyNames=["account"]), SCHEMA).startswith("Alert when one account ")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"groupingKeyNames": ["account", "place"]}, "groupingKeyNames: has the entities account and place; one"),
        ({"groupingKeyNames": ["account", "account"]}, "names the field account a second time"),
        ({"groupingKeyNames": ["acount"]}, "'acount' is not a declared field; the declared fields are transactionId,"),
        ({"groupingKeyNames": ["role"]}, "'role' is not a declared field"),
        ({"groupingKeyNames": ["payeeId"], "filter": "role = 'in'"}, "filter: 'role' is not a declared field"),
        ({"filter": "account = 1"}, "filter: 'account' is not a declared field"),
        ({"when": "role > 1"}, "when: role is a string, it cannot be compared with '1'"),
        ({"when": "previous(role) = 'in'"}, "when: previous needs a field of the payment, not its role"),
        ({"aggregateFieldName": "account"}, "aggregateFieldName: is 'account'; SUM needs a number"),
        ({"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["role"]}, "unique: 'role' is not a declared field"),
        ({"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["account"]}, "unique: 'account' is not a declared"),
        ({"limit": "role"}, "limit: "),
    ],
)
def test_names_of_entities_in_other_places_are_refused(members: dict[str, Any], message: str) -> None:
    assert [each for each in reasons(**members) if message in each]

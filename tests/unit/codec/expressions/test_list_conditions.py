"""Conditions on lists: where they are allowed, their types, and their text."""

from __future__ import annotations

import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.errors import RuleRejected
from fraud_rules.model.expressions.lookups import ListMembership
from fraud_rules.model.limits import RuleLimits
from tests.support.conformance import load_schema

SCHEMA = load_schema("default")


def _problems(text: str, member: str = "when") -> list[str]:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, SCHEMA, RuleLimits(), member)
    return [str(reason) for reason in rejected.value.reasons]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("beneficiaryId in list('mules')", "beneficiaryId in list('mules')"),
        ("payerId NOT IN LIST ( 'a-1_b' )", "payeeId not in list('a-1_b')"),
        ("not (paymentType in list('types')) or payeeId = 1", "not (paymentType in list('types')) or payeeId = 1"),
        ("lower(paymentType) in list('a')", "lower(paymentType) in list('a')"),
        ("coalesce(payeeId*2 in list('a'), false)", "coalesce(payeeId * 2 in list('a'), false)"),
    ],
)
def test_a_condition_on_a_list_has_a_canonical_text(text: str, canonical: str) -> None:
    found = parse_filter(text, SCHEMA, RuleLimits(), "when")
    assert str(found) == canonical
    assert parse_filter(canonical, SCHEMA, RuleLimits(), "when") == found


def test_the_lists_of_a_condition_are_known() -> None:
    text = "not (payeeId in list('a') and (paymentType in list('b') or payeeId not in list('c')))"
    found = parse_filter(text, SCHEMA, RuleLimits(), "when").lookups
    assert {(str(each.item), each.name, each.negated) for each in found} == {
        ("payeeId", "a", False),
        ("paymentType", "b", False),
        ("payeeId", "c", True),
    }
    assert all(isinstance(each, ListMembership) for each in found)


def test_lists_are_allowed_in_when_and_limit_only() -> None:
    assert _problems("payeeId in list('a')", "filter") == [
        "filter: names the list 'a'; lists are allowed in when and limit only (at character 17)"
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("payeeId in list('Mules')", "'Mules' is not a list's name"),
        ("paymentAmount in list('a')", "paymentAmount is a decimal"),
        ("eventTime in list('a')", "eventTime is a timestamp"),
        ("payeeId in list('a') and paymentType in list('a')", "with two types"),
        ("unknown in list('a')", "is not a declared field"),
        ("1 in list('a')", "is a literal"),
        ("1 + 1 in list('a')", "'1 + 1' contains no field"),
        ("payeeId / 2 in list('a')", "'payeeId / 2' is a number; lists have values of type long or string"),
        ("payeeId in list(a)", "cannot be read"),
        ("payeeId in list('a', 'b')", "cannot be read"),
        ("payeeId in list()", "cannot be read"),
        ("payeeId in list('a'", "is incomplete"),
    ],
)
def test_a_wrong_condition_on_a_list_is_rejected(text: str, says: str) -> None:
    assert says in _problems(text)[0]

"""`previous(field)` in texts of rules: its place, its argument and its type."""

from __future__ import annotations

import pytest

from fraud_rules.codec.rules.filter import parse_filter, parse_number
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
LIMITS = RuleLimits()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Previous( paymentAmount ) * 2 <paymentAmount", "previous(paymentAmount) * 2 < paymentAmount"),
        ("previous((country)) = country", "previous(country) = country"),
        ("10 > previous(payerId)", "previous(payeeId) < 10"),
        ("previous(cardPresent) and not cardPresent", "previous(cardPresent) and not (cardPresent)"),
        ("previous(country) is null", "previous(country) is null"),
        ("previous(payeeId) in list('mules')", "previous(payeeId) in list('mules')"),
        ("map('limits', previous(payeeId)) > 1", "map('limits', previous(payeeId)) > 1"),
        ("eventTime - previous(eventTime) <= 1.5", "eventTime - previous(eventTime) <= 1.5"),
    ],
)
def test_a_condition_reads_fields_of_the_previous_payment(text: str, canonical: str) -> None:
    tree = parse_filter(text, SCHEMA, LIMITS, "when")
    assert str(tree) == canonical
    assert parse_filter(canonical, SCHEMA, LIMITS, "when") == tree


def test_an_expression_names_the_fields_of_both_payments() -> None:
    tree = parse_number("paymentAmount * 2 + previous(merchantCategory)", SCHEMA, LIMITS, "limit")
    assert (tree.fields, tree.previous_fields) == ({"paymentAmount", "merchantCategory"}, {"merchantCategory"})
    assert tree.digits == (20, 2)  # those of a long, and one more before the point


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("previous(1) > 1", "previous needs a declared field, not '1' (at character 10)"),
        ("previous(payeeId + 1) > 1", "previous needs a declared field, not 'payeeId + 1' (at character 10)"),
        ("previous(previous(payeeId)) > 1", "previous needs a declared field, not 'previous(payeeId)'"),
        ("previous() > 1", "previous(field) cannot have 0 arguments (at character 1)"),
        ("previous(payeeId, 2) > 1", "previous(field) cannot have 2 arguments"),
        ("previous(payId) > 1", "'payId' is not a declared field; did you mean payerId?"),
        ("previous(country) > 1", "'previous(country)' is a text, it cannot be compared with '1'"),
        ("previus(country) = 'DE'", "'previus' is not a function; did you mean previous?"),
    ],
)
def test_a_text_that_is_refused_names_the_place(text: str, message: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, SCHEMA, LIMITS, "when")
    assert message in str(rejected.value)


@pytest.mark.parametrize("member", ["filter", "baseline.filter"])
def test_a_filter_reads_no_previous_payment(member: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter("previous(payeeId) = 1", SCHEMA, LIMITS, member)
    assert "reads the previous payment, which is allowed in when and limit only" in str(rejected.value)

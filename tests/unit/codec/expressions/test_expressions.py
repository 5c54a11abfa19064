"""Expressions in conditions: their types, their digits and their text."""

from __future__ import annotations

import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.errors import RuleRejected
from fraud_rules.model.expressions.predicate import Comparison
from fraud_rules.model.limits import RuleLimits
from tests.support.conformance import load_schema
from tests.unit.codec.expressions.test_filter import Row, passing

SCHEMA = load_schema("third_edition")
LIMITS = RuleLimits()


def test_numbers_beyond_64_bits_are_exact() -> None:
    big = 2**63 - 1
    rows: list[Row] = [{"payeeId": big, "beneficiaryId": big}, {"payeeId": -big - 1, "beneficiaryId": 1}]
    assert passing(f"payeeId * beneficiaryId = {big * big}", *rows, schema=SCHEMA) == [True, False]
    assert passing(f"-payeeId = {big + 1} and abs(payeeId) > {big}", *rows, schema=SCHEMA) == [False, True]
    assert passing(f"payeeId + beneficiaryId in ({2 * big}, {-big})", *rows, schema=SCHEMA) == [True, True]
    assert passing(f"payeeId * 10 / 10 = {big}", *rows, schema=SCHEMA) == [True, False]
    assert passing("payeeId - beneficiaryId > paymentAmount", *rows, schema=SCHEMA) == [False, False]
    assert passing("payeeId * beneficiaryId > 1.5", *rows, schema=SCHEMA) == [True, False]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("payeeId", 19, 0),
        ("paymentAmount", 16, 2),
        ("payeeId + 0.5", 20, 1),
        ("payeeId - paymentAmount", 20, 2),
        ("paymentAmount * 12.50", 18, 3),
        ("paymentAmount * 0.05", 16, 4),
        ("paymentAmount / 0.05", 19, 6),
        ("-paymentAmount", 16, 2),
        ("abs(paymentAmount)", 16, 2),
        ("round(paymentAmount)", 17, 0),
        ("round(paymentAmount, 4)", 17, 4),
        ("round(paymentAmount, -4)", 17, 0),
        ("coalesce(paymentAmount, 1.125)", 16, 3),
        ("eventTime - accountOpened", 17, 3),
        ("length(country)", 10, 0),
        ("distance_m(latitude, longitude, 1, 2)", 8, 0),
        ("minute_of_day(eventTime)", 4, 0),
        ("hour(eventTime)", 2, 0),
    ],
)
def test_the_digits_of_an_expression(text: str, before: int, after: int) -> None:
    tree = parse_filter(f"{text} > 1 + 1", SCHEMA, LIMITS)
    assert isinstance(tree, Comparison)
    assert tree.left.digits == (before, after)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("PaymentAmount", None),
        ("paymentAmount*2+1>11", "paymentAmount * 2 + 1 > 11"),
        ("1 < paymentAmount - (1 - 2) - 3", "paymentAmount - (1 - 2) - 3 > 1"),
        ("1 + 1 < payeeId", "1 + 1 < payeeId"),
        ("-(-payeeId) > - 1", "payeeId > -1"),
        ("-(payeeId + 1) / -(2.50) > 1", "-(payeeId + 1) / -2.5 > 1"),
        ("payeeId / (2 / 3) * 4 > 1", "payeeId / (2 / 3) * 4 > 1"),
        ("ROUND(payeeId, 0) = Abs(payeeId)", "round(payeeId) = abs(payeeId)"),
        ("round(payeeId, -2) = 1", "round(payeeId, -2) = 1"),
        ("hour(eventTime, 'UTC') = 1", "hour(eventTime) = 1"),
        ("hour(eventTime,'Europe/Berlin') = 1", "hour(eventTime, 'Europe/Berlin') = 1"),
        ("eventTime - '1970-01-01T00:00:01Z' > 1", "eventTime - 1000 > 1"),
        ("country NOT LIKE 'it''s\\%'", "country not like 'it''s\\%'"),
        ("country not in ('b', 'a')", "country not in ('a', 'b')"),
        ("cardPresent = (payeeId = 1)", "cardPresent = (payeeId = 1)"),
        ("coalesce((cardPresent), not cardPresent)", "coalesce(cardPresent, not (cardPresent))"),
        ("payeeId in (- 1, 2)", "payeeId in (-1, 2)"),
        ("(((payeeId))) + 1 is not null", "payeeId + 1 is not null"),
        ("payeeId not between 1 and 2 + 1", "not (payeeId >= 1 and payeeId <= 2 + 1)"),
        ("(payeeId = 1 or cardPresent) is null", "(payeeId = 1 or cardPresent) is null"),
    ],
)
def test_canonical_text(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(RuleRejected):
            parse_filter(text, SCHEMA, LIMITS)
        return
    tree = parse_filter(text, SCHEMA, LIMITS)
    again = parse_filter(canonical, SCHEMA, LIMITS)
    assert str(tree) == str(again) == canonical
    assert (again, hash(again)) == (tree, hash(tree))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + 1 = 2", "'1 + 1' = '2' contains no field (at character 1)"),
        ("payeeId = 1 and 1 + 1 in (2)", "'1 + 1' contains no field (at character 17)"),
        ("payeeId = 1 = 2", "cannot be read from character 13 on: '= 2'"),
        ("(payeeId = 1", "is incomplete"),
        ("payeeId +", "is incomplete"),
        ("payeeId + * 2 = 1", "cannot be read from character 11 on"),
        ("payeeId + +1 = 2", "'+1' has a plus; write the number without it (at character 11)"),
        ("+payeeId = 2", "cannot be read from character 2 on"),
        ("paymentType + 1 > 1", "paymentType is a string; + needs numbers (at character 1)"),
        ("1 - cardPresent > 1", "cardPresent is a boolean; - needs numbers or two timestamps (at character 5)"),
        ("(payeeId = 1) * 2 = 2", "'payeeId = 1' is a boolean; * needs numbers (at character 2)"),
        ("eventTime + 1 > 5", "eventTime is a timestamp; + needs numbers (at character 1)"),
        ("eventTime - payeeId > 5", "payeeId (long) and eventTime (timestamp) are of two types (at character 13)"),
        ("eventTime - 1.5 > 5", "1.5 is no whole number of milliseconds (at character 13)"),
        ("eventTime > 1.5", "1.5 is no whole number of milliseconds (at character 13)"),
        ("eventTime - 'soon' > 5", "'soon' is not a time such as 2024-05-01T10:00:00Z (at character 13)"),
        ("accountOpened - 999999999999999999 > 5", "999999999999999999 is no time in epoch milliseconds"),
        ("payeeId + 1 > 'x'", "'payeeId + 1' is a number, it cannot be compared with 'x' (at character 15)"),
        ("payeeId + 1 > country", "'payeeId + 1' (number) and country (string) cannot be compared (at character 1)"),
        ("paymentAmount", "paymentAmount is a decimal, and only a boolean field is a condition by itself"),
        ("cardPresent or true", "'true' is a literal; a field is required here (at character 16)"),
        ("coalesce(true, false)", "'coalesce(true, false)' contains no field (at character 1)"),
        ("cardPresent in (1)", "cardPresent is a boolean"),
        ("cardPresent > false", "cardPresent is a boolean; it can be a condition by itself"),
        ("(payeeId = 1) < cardPresent", "'payeeId = 1' and cardPresent are of type boolean"),
        ("sqrt(payeeId) > 1", "'sqrt' is not a function; the functions are abs, round"),
        ("our(eventTime) > 1", "'our' is not a function; did you mean hour? (at character 1)"),
        ("payeeId > paymentamount", "'paymentamount' is not a declared field; did you mean paymentAmount? (at"),
        ("abs() > 1 and payeeId = 1", "abs(a) cannot have 0 arguments (at character 1)"),
        ("round(payeeId, 1, 2) = 1", "round(a, [n]) cannot have 3 arguments"),
        ("round(payeeId, 7) = 1", "round needs a whole number from -18 to 6 as n, not '7' (at character 16)"),
        ("round(payeeId, 0.5) = 1", "round needs a whole number from -18 to 6 as n, not '0.5'"),
        ("round(payeeId, payeeId) = 1", "round needs a whole number from -18 to 6 as n, not payeeId"),
        ("substring(country, 0, 1) = 'x'", "substring needs a whole number from 1 to 10000 as start, not '0'"),
        ("lower(payeeId) = 'x'", "payeeId is a long; lower needs a text as s (at character 7)"),
        ("hour(payeeId) = 1", "payeeId is a long; hour needs a timestamp as t"),
        ("hour(eventTime, 'Mars/Olympus') = 1", "needs the name of a time zone, such as 'Europe/Berlin', not 'M"),
        ("hour(eventTime, country) = 1", "needs the name of a time zone"),
        ("coalesce(country, 1) = 'x'", "country (string) and '1' (number) are of two types; coalesce needs one"),
        ("payeeId like '1%'", "payeeId is a long; like is for texts (at character 1)"),
        ("country like 'a\\b'", "the pattern 'a\\\\b' has a \\ at its character 2"),
        ("country like '" + "a" * 257 + "'", "has 257 characters, at most 256 are allowed (at character 14)"),
        ("'a' like 'a'", "'a' is a literal; a field is required here"),
        ("paymentAmount * paymentAmount * paymentAmount > 1", "can have 54 digits, 48 before and 6 after the point"),
        ("payeeId * beneficiaryId + 1 > 1", "can have 39 digits"),
        ("country like 'a' and payeeId like like", "cannot be read from character 35 on"),
    ],
)  # fmt: skip
def test_a_wrong_expression_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, SCHEMA, LIMITS)
    assert message in rejected.value.reasons[0].message


def test_chains_within_the_bounds_are_evaluated() -> None:
    deep = "coalesce(" * 31 + "abs(payeeId)" + ", 1)" * 31
    assert passing(f"{deep} = 7", {"payeeId": 7}, schema=SCHEMA) == [True]
    assert passing("payeeId" + " + 1" * 18 + " = 25", {"payeeId": 7}, schema=SCHEMA) == [True]
    assert passing("payeeId" + " * 0" * 190 + " = 0", {"payeeId": 7}, schema=SCHEMA) == [True]
    assert passing("- " * 300 + "payeeId = 7", {"payeeId": 7}, schema=SCHEMA) == [True]

"""Expressions in conditions: their values, their types, their digits and their text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.errors import RuleRejected
from fraud_rules.model.expressions.predicate import Comparison
from fraud_rules.model.limits import UNBOUNDED, RuleLimits
from tests.support.conformance import load_schema
from tests.unit.codec.expressions.test_filter import Row, column, passing

SCHEMA = load_schema("third_edition")
LIMITS = RuleLimits()
NOON_MS = 1_700_049_600_000  # Wednesday 2023-11-15T12:00:00Z
FULL: Row = {
    "eventTime": NOON_MS,
    "accountOpened": NOON_MS - 86_400_001,
    "payeeId": 7,
    "merchantCategory": -3,
    "paymentAmount": Decimal("250.50"),
    "country": "DE",
    "merchantName": "ÄB\U0001f600d",
    "cardPresent": True,
    "latitude": Decimal("52.5"),
    "longitude": Decimal("13.4"),
}


def value(text: str, row: Row) -> object:
    """The value of an expression for one row."""
    tree = parse_filter(f"{text} is null", SCHEMA, LIMITS)
    (operand,) = tree.operands
    columns = {field.name: column(field, [row.get(field.name)]) for field in SCHEMA.fields}
    found = operand.evaluate(columns, 1)
    if found.valid is not None and not found.valid[0]:
        return None
    if found.dictionary is not None:
        return found.dictionary[found.values[0]]
    return Fraction(int(found.values[0])) / 10**operand.digits.after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payeeId + 1", 8),
        ("payeeId - 1 - 1", 5),
        ("payeeId - (1 - 1)", 7),
        ("2 + payeeId * 2", 16),
        ("(2 + payeeId) * 2", 18),
        ("-payeeId * 2", -14),
        ("payeeId - -0.25", "7.25"),
        ("paymentAmount * paymentAmount", "62750.25"),
        ("payeeId / 3", "2.333333"),
        ("payeeId / -3", "-2.333333"),
        ("payeeId / 8 / 1000000", "0.000001"),  # 0.000000875
        ("0.0000005 + 0 * payeeId / 1", "0.0000005"),
        ("(payeeId - 6) / 2000000", "0"),  # the half goes to the even neighbour
        ("(payeeId - 4) / 2000000", "0.000002"),
        ("payeeId / 0", None),
        ("payeeId / (payeeId - 7)", None),
        ("abs(merchantCategory)", 3),
        ("round(paymentAmount)", 250),
        ("round(-paymentAmount)", -250),
        ("round(paymentAmount + 1)", 252),
        ("round(paymentAmount, 1)", "250.5"),
        ("round(paymentAmount, -2)", 300),
        ("round(paymentAmount - 0.5, -2)", 200),
        ("round(paymentAmount, -18)", 0),
        ("eventTime - accountOpened", "86400.001"),
        ("accountOpened - eventTime", "-86400.001"),
        ("eventTime - '2023-11-15T11:59:59.999Z'", "0.001"),
        ("eventTime - 1700049599999", "0.001"),
        ("lower(country)", "de"),
        ("lower(merchantName)", "Äb\U0001f600d"),
        ("length(merchantName)", 4),
        ("substring(merchantName, 2, 2)", "B\U0001f600"),
        ("substring(merchantName, 4, 10000)", "d"),
        ("substring(merchantName, 5, 1)", ""),
        ("hour(eventTime)", 12),
        ("hour(eventTime, 'Asia/Kathmandu')", 17),
        ("minute_of_day(eventTime, 'Asia/Kathmandu')", 17 * 60 + 45),
        ("weekday(eventTime)", 3),
        ("day(eventTime, 'Pacific/Kiritimati')", 16),
        ("month(eventTime)", 11),
        ("coalesce(merchantCategory, 5)", -3),
        ("coalesce(merchantCategory / 0, 0.5)", "0.5"),
        ("coalesce(country, merchantName)", "DE"),
        ("coalesce(substring(country, 1, 1), 'x')", "D"),
        ("coalesce(accountOpened, '1970-01-01T00:00:01Z') - eventTime", "-86400.001"),
        ("distance_m(latitude, longitude, 52.5, 13.4)", 0),
        ("distance_m(latitude, longitude, -52.5, -166.6)", 20_015_114),
        ("distance_m(latitude, longitude, 52.5, 180.5)", None),
    ],
)
def test_the_value_of_an_expression(text: str, expected: object) -> None:
    is_text = text.startswith(("lower", "substring", "coalesce(country", "coalesce(sub"))
    assert value(text, FULL) == (expected if expected is None or is_text else Fraction(str(expected)))


@pytest.mark.parametrize(
    "text",
    [
        "-merchantCategory",
        "payeeId + merchantCategory",
        "merchantCategory / payeeId",
        "round(merchantCategory, 2)",
        "eventTime - accountOpened",
        "lower(country)",
        "length(country)",
        "hour(accountOpened)",
        "coalesce(merchantCategory, merchantCategory)",
        "coalesce(country, lower(country))",
        "coalesce(cardPresent, cardPresent)",
        "coalesce(cardPresent, country = 'DE')",
        "distance_m(latitude, 1, 2, 3)",
    ],
)
def test_a_null_operand_gives_null(text: str) -> None:
    assert passing(f"{text} is null", {"eventTime": 1, "payeeId": 1}, FULL, schema=SCHEMA) == [True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coalesce(cardPresent, false)", [True, False, False]),
        ("not coalesce(cardPresent, false)", [False, True, True]),
        ("coalesce(cardPresent, false) = cardPresent", [True, True, False]),
        ("(payeeId > 1) = cardPresent", [True, False, False]),
        ("(cardPresent and payeeId > 1) is null", [False, False, True]),
        ("coalesce(merchantCategory > 0, true)", [False, False, True]),
        ("coalesce(1, payeeId) = 1", [True, True, True]),
        ("coalesce(1, payeeId) is not null", [True, True, True]),
        ("country < lower(country)", [True, True, False]),
        ("coalesce(country, 'XX') = 'XX'", [False, False, True]),
        ("country in ('DE', 'FR') and lower(country) not in ('fr')", [True, False, False]),
        ("payeeId * 2 in (14, 14.0)", [True, True, False]),
        ("eventTime in (1700049600000)", [True, True, True]),
        ("hour(eventTime) between 12 and payeeId + 5", [True, True, False]),
    ],
)
def test_conditions_over_expressions(text: str, expected: list[bool]) -> None:
    rows: list[Row] = [FULL, {**FULL, "cardPresent": False, "country": "FR"}, {"eventTime": NOON_MS}]
    assert passing(text, *rows, schema=SCHEMA) == expected


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
    assert passing(f"{deep} = 7", FULL, schema=SCHEMA) == [True]
    assert passing("payeeId" + " + 1" * 18 + " = 25", FULL, schema=SCHEMA) == [True]
    assert passing("payeeId" + " * 0" * 190 + " = 0", FULL, schema=SCHEMA) == [True]
    assert passing("- " * 300 + "payeeId = 7", FULL, schema=SCHEMA) == [True]


# Number expressions as text, each with its value for one row by exact Python; None for null.
Number = Fraction | None
Generated = tuple[str, Callable[[Row], Number]]
FIELDS = ("payeeId", "merchantCategory", "paymentAmount", "latitude")


def half_even(number: Fraction, places: int) -> Fraction:
    unit = Fraction(10) ** -places
    return round(number / unit) * unit


def of_field(name: str) -> Generated:
    return name, lambda row: None if row[name] is None else Fraction(str(row[name]))


def of_literal(number: Decimal) -> Generated:
    return format(number, "f"), lambda _: Fraction(number)


def combined(left: Generated, sign: str, right: Generated) -> Generated:
    def evaluated(row: Row) -> Number:
        a, b = left[1](row), right[1](row)
        if a is None or b is None or (sign == "/" and b == 0):
            return None
        results = {"+": a + b, "-": a - b, "*": a * b}
        return half_even(a / b, 6) if sign == "/" else results[sign]

    return f"({left[0]}) {sign} ({right[0]})", evaluated


def called(name: str, inner: Generated, places: int) -> Generated:
    functions: dict[str, tuple[str, Callable[[Fraction], Fraction]]] = {
        "abs": (f"abs({inner[0]})", abs),
        "-": (f"-({inner[0]})", lambda value: -value),
        "round": (f"round({inner[0]}, {places})", lambda value: half_even(value, places)),
    }
    text, function = functions[name]

    def evaluated(row: Row) -> Number:
        found = inner[1](row)
        return None if found is None else function(found)

    return text, evaluated


def first_known(left: Generated, right: Generated) -> Generated:
    def evaluated(row: Row) -> Number:
        found = left[1](row)
        return right[1](row) if found is None else found

    return f"coalesce({left[0]}, {right[0]})", evaluated


NUMBERS = st.recursive(
    st.builds(of_field, st.sampled_from(FIELDS)) | st.builds(of_literal, st.decimals(-99, 99, places=2)),
    lambda inner: (
        st.builds(combined, inner, st.sampled_from("+-*/"), inner)
        | st.builds(called, st.sampled_from(["abs", "-", "round"]), inner, st.integers(-3, 6))
        | st.builds(first_known, inner, inner)
    ),
    max_leaves=5,
)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "payeeId": st.none() | st.integers(-9, 9) | INT64,
        "merchantCategory": st.none() | st.integers(-9, 9) | INT64,
        "paymentAmount": st.none() | st.decimals(-9, 9, places=2) | st.decimals(-(10**16), 10**16 - 1, places=2),
        "latitude": st.none() | st.decimals(-1, 1, places=6),
    }
)


@settings(max_examples=150)
@given(NUMBERS, st.lists(ROWS, min_size=1, max_size=5))
def test_any_number_expression_is_exact(number: Generated, rows: list[Row]) -> None:
    text, evaluated = number
    try:
        tree = parse_filter(f"payeeId = {text}", SCHEMA, UNBOUNDED)
    except RuleRejected as rejected:
        assert "at most 38 are allowed" in rejected.reasons[0].message
        return
    assert parse_filter(str(tree), SCHEMA, UNBOUNDED) == tree
    operand = tree.operands[1]
    columns = {field.name: column(field, [row.get(field.name) for row in rows]) for field in SCHEMA.fields}
    found = operand.evaluate(columns, len(rows))
    values = np.broadcast_to(found.values, len(rows)).tolist()
    valid = [True] * len(rows) if found.valid is None else np.broadcast_to(found.valid, len(rows)).tolist()
    unscaled = int(10**operand.digits.after)
    got = [Fraction(each, unscaled) if known else None for each, known in zip(values, valid, strict=True)]
    assert got == [evaluated(row) for row in rows]
    assert all(each is None or abs(each) < 10**operand.digits.before for each in got)

"""The product's expressions against the oracle's: same texts accepted, same rows passed, same values to the digit."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fraud_rules.codec.rules.files import read_rule_file
from tests.support.conformance import load_cases, load_schema
from tests.support.places import ROOT
from tests.support.streams import generated, long
from tests.support.streams.expressions import (
    MOMENTS_MS,
    ZONES,
    conditions,
    numbers_of_fields,
    rows_of,
    text_literal,
    texts_of_fields,
)
from tests.unit.oracle.readers import Rows, by_oracle, by_product, numbers_by_oracle, numbers_by_product

ROWS = 24
COMPARED = 2
"""The rows of one example whose texts are compared."""


def assert_same(text: str, rows: Rows) -> None:
    """Both accept the condition and its negation, and pass the same rows: so unknown is the same, too."""
    for condition in (text, f"not ({text})"):
        found = by_oracle(condition, rows)
        assert found is not None, condition
        assert by_product(condition, rows) == found, condition


@settings(max_examples=80)
@given(conditions(), st.integers(0, 99))
def test_generated_conditions_mean_the_same_to_both(text: str, seed: int) -> None:
    assert_same(text, rows_of(seed, ROWS))


@given(numbers_of_fields(), st.integers(0, 99))
def test_generated_numbers_have_the_same_digits_to_both(text: str, seed: int) -> None:
    rows = rows_of(seed, ROWS)
    assert numbers_by_product(text, rows) == numbers_by_oracle(text, rows)


@given(texts_of_fields(), st.sampled_from(["=", "<", ">="]), st.integers(0, 99))
def test_generated_texts_have_the_same_characters_to_both(text: str, sign: str, seed: int) -> None:
    rows = rows_of(seed, ROWS)
    for literal in {row["country"] or "" for row in rows[:COMPARED]}:
        assert_same(f"{text} {sign} {text_literal(literal)}", rows)


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_of_a_zone_show_the_same_to_both(zone: str) -> None:
    rows = [{**rows_of(1, 1)[0], "opened": ms} for ms in MOMENTS_MS]
    for clock in ("minute_of_day", "day"):
        text = f"{clock}(opened, '{zone}')"
        assert numbers_by_product(text, rows) == numbers_by_oracle(text, rows)


FORMS = [
    "payeeId * points > 1",
    "paymentAmount * paymentAmount > 1",
    "paymentAmount / 0.000000000000001 > 1",
    "points > 99999999999999999999999999999999999999",
    "points > 0.0000000000000000000000000000000000001",
    "points >= 1.0000000000000000000000000000000000000",
    "round(payeeId / 10) * 10 = payeeId or points > 0",
    "payerId = 1",
    "points - 1 - 1 = 3 and points-1=2 or points - -1 = - -1",
    "-points * -2 = 2 * points or points = 1 -- points",
    "8 / points / 2 = 4",
    "(points) = (1) and ((points) + (1)) = 2",
    "(points = 1) = (payeeId = 1)",
    "(points = 1) is null or (cardPresent = verified) is not null",
    "cardPresent = (points > 1 or verified)",
    "ROUND(units, -18) = 0 and Round(price, 6) = price",
    "not points = 1 and points > 1 or points - 1 - 1 = 3 and payeeId = 2",
    "eventTime - '2024-05-01T10:00:00Z' > 86400",
    "'2024-05-01 10:00:00' - opened > 86400",
    "coalesce(opened, '2024-05-01T10:00:00Z') <= eventTime",
    "opened in ('2024-03-31T01:00:00Z', 0, -1)",
    "opened between '1969-12-31T00:00:00Z' and eventTime",
    "country like '' or country like '%' and country not like '_%'",
    f"merchantName like '{'%a' * 128}'",
    "substring(country, 10000, 10000) = ''",
    "length(country) in (0, 1, 2)",
    "hour(eventTime, 'Europe/Berlin') between 22 and 23",
    "weekday(coalesce(opened, eventTime), 'UTC') > 5",
    "coalesce(cardPresent, false)",
    "not coalesce(points = 1, true)",
    "cardPresent and not (hour(eventTime) between 7 and 21)",
    "country = 'it''s'",
    "'CSH' = country",
    "country < 'CSH' OR country IS NULL",
    "country NOT IN ('CSH', '')",
    "2.505 > paymentAmount",
    # literals between two values of a column, and beyond 64 bits
    "paymentAmount > 2.495",
    "paymentAmount >= 2.505",
    "paymentAmount <= 2.495",
    "paymentAmount < 2.505",
    "paymentAmount > -2.515",
    "paymentAmount >= -2.505",
    "paymentAmount <= -2.515",
    "paymentAmount < -2.505",
    "paymentAmount = 2.505 or paymentAmount in (-2.505, 2.5)",
    "paymentAmount != 2.505 and paymentAmount not in (2.5, 2.505)",
    "paymentAmount < 999999999999999999999",
    "paymentAmount > -99999999999999999999.5",
    "paymentAmount in (999999999999999999999, 2.5)",
    "payeeId < 9223372036854775808",
    "payeeId < -9223372036854775808.5",
    "payeeId = paymentAmount or payeeId < paymentAmount",
    "paymentAmount <> payeeId and payeeId >= transactionId",
    "payeeId * points = 85070591730234615847396907784232501249",
    "payeeId + points in (18446744073709551614, -9223372036854775807)",
    "payeeId * 10 / 10 = 9223372036854775807",
    "country < merchantName or country = merchantName",
    "paymentAmount NOT BETWEEN points AND 2.50",
    "2 between points and payeeId",
    "not not points = 1 and not points = 2 or points is not null",
    "points = 1 or points = 2 and payeeId = 3",
    "eventTime = '2024-05-01T10:00:00Z'",
    "eventTime < '2024-05-01T12:00:00+02:00'",
    "opened >= eventTime",
    "payeeId in (9223372036854775807, -9223372036854775808)",
    "cardPresent",
    "cardPresent and not points = 1 or not cardPresent",
    "cardPresent = TRUE",
    "false <> cardPresent",
    "not (cardPresent != False) and cardPresent is not null",
]


def test_every_form_of_an_expression_means_the_same_to_both() -> None:
    for text in FORMS:
        assert_same(text, rows_of(len(text), 200))


REFUSED = [
    # digits
    "paymentAmount * paymentAmount * paymentAmount > 1", "payeeId * points + 1 > 1",
    "abs(-points * payeeId) / 1 > 1", "payeeId * points / 10 > 1",
    "points > 999999999999999999999999999999999999999", "points > 1.00000000000000000000000000000000000000",
    "round(payeeId * points) > 1", "points * points * 0.5 > 1", "paymentAmount * paymentAmount * price > 1",
    "points > 000000000000000000000000000000000000001", "points in (1, 999999999999999999999999999999999999999)",
    # types
    "country + 1 > 1", "country + country = 'x'", "opened + 1 > 5", "1 + opened > 5", "opened - points > 5",
    "-opened < 5", "-country = 'x'", "-cardPresent", "opened * 2 > 5", "cardPresent + 1 > 1", "cardPresent * 1 = 1",
    "points = country", "points = opened", "country = opened", "cardPresent = 1", "cardPresent = country",
    "cardPresent > false", "cardPresent between false and true", "cardPresent in (true)", "cardPresent like 'a%'",
    "(points = 1) < (points = 2)", "points like '1%'", "opened like '2%'", "points and cardPresent", "not points",
    "country or cardPresent", "(points) and points = 1", "points in ('1')", "country in (1)", "opened in (true)",
    "opened > 1.5", "opened = 'soon'", "opened between 1 and 'x'", "coalesce(country, 1) = 'x'",
    "coalesce(points, country) = 1", "coalesce(opened, points) = 1", "coalesce(cardPresent, points)",
    "coalesce(opened, 'soon') = eventTime",
    # conditions
    "points", "country", "opened", "points + 1", "coalesce(points, 1)", "lower(country)", "hour(opened)", "'x'",
    "1",
    "points = 1 = 2", "points = payeeId = cardPresent", "points < payeeId < 3", "cardPresent = points = 1",
    "points is null is null", "points between 1 and 2 = cardPresent", "cardPresent = not verified",
    "cardPresent = verified is null",
    # a field in each comparison
    "1 + 1 = 2", "abs(-1) = 1", "1 between 0 and points", "round(1) in (1)", "lower('A') like 'a'",
    "coalesce(1, 2) is null", "length('a') = 1 and points = 1", "true = false",
    # signs
    "points = +1", "points != +1.00", "+points = 1", "points + + 1 = 2", "points = 1e3", "points = .5",
    "points = 5.", "points ** 2 = 1", "points % 2 = 1", "points // 2 = 1", "points || 'x' = 'x'", "points - = 1",
    "* points = 1", "points in (1 + 1)", "points in (payeeId)", "points in ((1))", "points in (abs(1))",
    "points in ()", "points in (1,)", "points between 1", "points between 1 and", "points is not", "points like",
    # functions
    "sqrt(points) > 1", "upper(country) = 'A'", "abs() = 1", "abs(points, 1) = 1", "abs(points = 1",
    "abs points = 1",
    "abs(country) = 'x'", "abs(opened) > 1", "abs(cardPresent) = 1", "round() = points", "round(country) = 'x'",
    "round(points, 7) = 1", "round(points, -19) = 1", "round(points, payeeId) = 1", "round(points, 0.5) = 1",
    "round(points, '1') = 1", "round(points, 1, 1) = 1", "round(points, 1 + 1) = 1", "lower(points) = 'x'",
    "lower(country, country) = 'x'", "length(points) = 1", "length(cardPresent) = 1", "substring(country) = 'x'",
    "substring(country, 1) = 'x'", "substring(country, 0, 1) = 'x'", "substring(country, 1, 0) = 'x'",
    "substring(country, -1, 1) = 'x'", "substring(country, 1, 10001) = 'x'", "substring(country, 10001, 1) = 'x'",
    "substring(country, points, 1) = 'x'", "substring(country, 1, points) = 'x'", "substring(points, 1, 1) = '1'",
    "hour(points) = 1", "hour(country) = 1", "hour(1) = points", "hour('2024-05-01T10:00:00Z') = points",
    "hour(opened, 'Mars/Olympus') = 1", "hour(opened, 'europe/berlin') = 1", "hour(opened, '') = 1",
    "hour(opened, country) = 1", "hour(opened, 1) = 1", "hour(opened, '+02:00') = 1", "hour(opened, 'UTC', 1) = 1",
    "year(opened) = 2024", "minute(opened) = 1", "weekday() = points", "coalesce(points) = 1",
    "coalesce(points, 1, 2) = 1", "coalesce() = points", "distance_m(latitude, longitude, 0) = 1",
    "distance_m(latitude, longitude, country, 0) = 1", "distance_m(latitude, longitude, 0, 0, 0) = 1",
    "distance_m(latitude, longitude, '1', 0) = 1", "distance_m(latitude, longitude, opened, 0) = 1",
    # `like`
    "country like 'a\\b'", "country like '\\'", "country like 'a\\\\\\'", "country like points", "country like 1",
    "country like country", "country like lower('A')", f"country like '{'a' * 257}'", "'a' like country",
    "country like ('a')", "country not not like 'a'",
    # places, names and reserved words
    "previous(points) > 1", "map('limits', payeeId) > 1", "map_text('regions', payeeId) = 'x'", "own() > 1",
    "points in list('longs')", "unknown = 1", "Points = 1", "like = 1", "true.x = 1", "lower = 'x'",
    "points(1) = 1",
    "points = null", "coalesce(points, null) = 1", "null is null", "true", "not false", "points = 1 or true",
    "(points = 1", "points = 1)", "((points) = 1", "points = 'x", "points == 1", "points = 1; points = 2",
    "country = \"x\"", "points = 1 /* x */", "points = 1 and and points = 2", "", " ",
    # comparisons
    "points =", "= 1", "1 = 1", "points = 'x'", "country = 1", "points = 1 points = 2", "points in 1", "1 in (1)",
    "1 is null", "points is", "points not = 1", "points not 1", "points between 1 or 2", "points = eventTime",
    "eventTime = '2024-05-01'", "eventTime = '2024-W18-3'", "eventTime = '20240501T100000Z'",
    "eventTime > 1600000000", "eventTime = '2024-05-01T24:00:00Z'", "points in in (1)", "eventTime = 'soon'",
    "eventTime = '2024-05-01T10:00:00.0001Z'", "points = 1x", "points = 1 and", "not", "cardPresent = 'true'",
    "points = true", "cardPresent = points", "cardPresent = null", "cardPresent true",
    "cardPresent = cardPresent = true", "cardPresent < cardPresent", 'points = "1"', "points ! = 1",
    "points = 1 && points = 2",
]  # fmt: skip


def test_both_refuse_invalid_expressions() -> None:
    assert [text for text in REFUSED if by_oracle(text, []) is not None or by_product(text, []) is not None] == []


@settings(max_examples=80)
@given(
    conditions(2),
    st.integers(0, 300),
    st.integers(0, 3),
    st.sampled_from(["", " ", "(", ")", "not ", "and", "'", "1", "=", ",", "-", "*", "is null", "\\"]),
)
@example("points = 1", 0, 0, "or ")
def test_both_accept_the_same_broken_expressions(text: str, place: int, gone: int, put: str) -> None:
    """A condition with some characters left out and others put in their place."""
    at = place % (len(text) + 1)
    broken, rows = text[:at] + put + text[at + gone :], rows_of(place % 100, ROWS)
    assert by_oracle(broken, rows) == by_product(broken, rows)


def corpus() -> list[str]:
    """Every filter of the conformance cases, of the shipped rules and of the generated streams.

    A `when` that names lists is no filter. The generated streams compare its meaning.
    """
    rules = [step["rule"] for case in load_cases() for step in case.document["steps"] if "rule" in step]
    shipped = sorted((ROOT / "config" / "rules").iterdir())
    rules += [json.loads(record.value) for path in shipped for record in read_rule_file(path)]
    found = {rule.get(name) for rule in rules if isinstance(rule, dict) for name in ("filter", "when")}
    found |= {*generated.CONDITIONS, *long.FILTERS}
    return sorted(text for text in found if isinstance(text, str) and "list(" not in text)


NULLABLE = load_schema("nullable")
VALUES: dict[str, list[Any]] = {
    "transactionId": [1, 2, 3],
    "eventTime": [generated.START_MS, generated.START_MS + 2000, 1_714_557_600_000],
    "payeeId": [1, 2, 3, -1, 2**63 - 1, -(2**63)],
    "beneficiaryId": [None, 1, 2, 3, 4],
    "paymentType": [None, "CSH", "CRD", "it's", ""],
    "paymentAmount": [None, Decimal(1), Decimal("2.50"), Decimal("2.51"), Decimal(-3), Decimal(generated.BIG)],
    "points": [None, 0, 1, 2, 3, 4],
    "cardPresent": [None, True, False],
    "ingestionTimestamp": [None, generated.START_MS],
}
"""Values of each field, near the literals of the corpus."""


def test_every_filter_of_the_corpus_means_the_same_to_both() -> None:
    for text in corpus():
        chance = Random(len(text))
        rows = [{name: chance.choice(values) for name, values in VALUES.items()} for _ in range(40)]
        assert by_oracle(text, rows, NULLABLE) == by_product(text, rows, NULLABLE), text

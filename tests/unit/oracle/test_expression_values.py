"""Expressions against values worked out by hand: each sentence of the specification has its examples."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from fraud_rules.model.schema import FieldType
from tests.support.oracle import sphere
from tests.support.oracle.filters import (
    FilterRefused,
    is_expression,
    list_key,
    parse_filter,
    parse_limit,
    parse_when,
)
from tests.support.streams.expressions import SCHEMA
from tests.unit.oracle.readers import by_oracle, by_product, numbers_by_oracle, numbers_by_product

NULLS: dict[str, Any] = dict.fromkeys(SCHEMA.names)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def number(text: str, **row: Any) -> Fraction | None:
    """The value for one row, whose further fields are null."""
    (value,) = numbers_by_oracle(text, [{**NULLS, **row}])
    assert numbers_by_product(text, [{**NULLS, **row}]) == [value]
    return value


def truth(text: str, **row: Any) -> bool | None:
    """Whether a condition holds; None if it is unknown."""
    value = parse_filter(text, SCHEMA)({**NULLS, **row})
    assert by_product(text, [{**NULLS, **row}]) == [value is True]
    assert by_product(f"not ({text})", [{**NULLS, **row}]) == [value is False]
    return value


def refused(text: str) -> bool:
    refused_by_oracle = by_oracle(text, []) is None
    assert (by_product(text, []) is None) is refused_by_oracle
    return refused_by_oracle


def refused_by_oracle(text: str) -> bool:
    try:
        parse_when(text, SCHEMA)
    except FilterRefused:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 4 - 3", "3"),
        ("16 / 4 / 2", "2"),
        ("2 - -3", "5"),
        ("--2", "2"),
        ("-2 * 3", "-6"),
        ("paymentAmount * 2 + 1", "11.02"),
        ("paymentAmount - 5.01", "0"),
        ("0.1 + 0.2", "0.3"),
        ("9999999999999999.99 * 100", "999999999999999999"),
        ("-paymentAmount", "-5.01"),
        ("abs(-paymentAmount)", "5.01"),
        ("ABS(1 - 3)", "2"),
    ],
)
def test_sums_and_products_are_exact_and_bind_as_usual(text: str, value: str) -> None:
    assert number(text, paymentAmount=Decimal("5.01")) == Fraction(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / 3", "0.333333"),
        ("2 / 3", "0.666667"),
        ("-2 / 3", "-0.666667"),
        ("1 / 2000000", "0"),  # 0.0000005: half even, downwards
        ("3 / 2000000", "0.000002"),  # 0.0000015: half even, upwards
        ("-1 / 2000000", "0"),
        ("-3 / 2000000", "-0.000002"),
        ("1 / 3 * 3", "0.999999"),  # each quotient is rounded
        ("1 / 0", None),
        ("0 / 0", None),
        ("1 / (1 / 3000000)", None),  # the divisor is rounded to 0
        ("-(1 / 0)", None),
        ("7 / 8 / 1000000", "0.000001"),
        ("0.0000005 + 0 / 1", "0.0000005"),
    ],
)
def test_a_quotient_has_six_decimals_half_even_and_is_null_by_zero(text: str, value: str | None) -> None:
    assert number(text) == (None if value is None else Fraction(value))


@pytest.mark.parametrize(
    ("end", "start", "seconds"),
    [
        ("2024-05-01T10:00:00.001", "2024-05-01T10:00:00", "0.001"),
        ("2024-05-01T10:00:00", "2024-05-02T10:00:00", "-86400"),
        ("1969-12-31T23:59:59.999", "1970-01-01T00:00:00", "-0.001"),
    ],
)
def test_the_difference_of_timestamps_is_seconds_with_three_decimals(end: str, start: str, seconds: str) -> None:
    assert number("eventTime - opened", eventTime=ms(end), opened=ms(start)) == Fraction(seconds)


def test_a_literal_beside_a_timestamp_is_a_time() -> None:
    row = {"eventTime": ms("2024-05-01T10:00:00"), "opened": None}
    assert number("eventTime - '2024-05-01T09:59:00Z'", **row) == 60
    assert number("'2024-05-01 11:00:00' - eventTime", **row) == 3600
    assert number("eventTime - 1714557600000", **row) == 0
    assert number("hour(coalesce(opened, '2024-05-01T03:00:00Z'))", **row) == 3
    assert truth("'2024-05-01T12:00:00+02:00' = eventTime", **row)
    assert truth("eventTime in ('2024-05-01T10:00:00Z')", **row)
    assert truth("opened in (-1, 0)", opened=-1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(2.5)", "2"),
        ("round(3.5)", "4"),
        ("round(-2.5)", "-2"),
        ("round(-2.51)", "-3"),
        ("round(0.0000005, 6)", "0"),
        ("round(0.0000015, 6)", "0.000002"),
        ("round(1.005, 2)", "1"),
        ("round(250, -2)", "200"),
        ("round(350, -2)", "400"),
        ("round(-350, -2)", "-400"),
        ("round(49, -2)", "0"),
        ("round(500000000000000001, -18)", "1000000000000000000"),
        ("round(500000000000000000, -18)", "0"),
    ],
)
def test_rounds_half_even(text: str, value: str) -> None:
    assert number(text) == Fraction(value)


@pytest.mark.parametrize(
    ("text", "country", "expected"),
    [
        ("lower(country) = 'abcxyz'", "ABCXYZ", True),
        ("lower(country) = 'Äß1'", "Äß1", True),  # only A to Z change
        ("lower(country) = 'k'", "\u212a", False),
        ("country < lower(country)", "DE", True),
        ("coalesce(substring(country, 1, 1), 'x') = 'D'", "DE", True),
        ("country in ('DE', 'FR') and lower(country) not in ('fr')", "FR", False),
        ("length(country) = 2", "😀a", True),
        ("length(country) = 2", "e\u0301", True),
        ("length(country) = 0", "", True),
        ("substring(country, 2, 3) = 'BCD'", "ABCDE", True),
        ("substring(country, 1, 1) = '😀'", "😀a", True),
        ("substring(country, 4, 10000) = 'DE'", "ABCDE", True),
        ("substring(country, 6, 1) = ''", "ABCDE", True),
        ("substring(country, 10000, 10000) = ''", "ABCDE", True),
        ("country > '\uffff'", "\U00010000", True),  # code points, not UTF-16
        ("country > 'Z'", "a", True),
        ("country = 'it''s'", "it's", True),
        ("country = ' it '", "it", False),
    ],
)
def test_texts_are_sequences_of_code_points(text: str, country: str, expected: bool) -> None:
    assert truth(text, country=country) is expected


@pytest.mark.parametrize(
    ("pattern", "country", "expected"),
    [
        ("a%", "ab", True),
        ("a%", "ba", False),
        ("a", "ab", False),
        ("%", "", True),
        ("_", "", False),
        ("_", "😀", True),
        ("_", "\n", True),
        ("%b%", "a\nb\nc", True),
        ("__", "a", False),
        ("100\\%", "100%", True),
        ("100\\%", "100x", False),
        ("a\\_b", "a_b", True),
        ("a\\_b", "axb", False),
        ("\\\\", "\\", True),
        ("A%", "ab", False),
        ("%ab", "aab", True),
        ("%aab%b", "aaabab", True),
        ("%''%", "it's", True),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_like_matches_the_whole_text(pattern: str, country: str, expected: bool) -> None:
    assert truth(f"country like '{pattern}'", country=country) is expected
    assert truth(f"country not like '{pattern}'", country=country) is not expected


@pytest.mark.parametrize("pattern", ["a\\b", "\\", "\\\\\\", "a" * 257])
def test_a_pattern_has_no_stray_backslash_and_256_characters(pattern: str) -> None:
    assert refused(f"country like '{pattern}'")
    assert not refused(f"country like '{'a' * 256}'")


@pytest.mark.parametrize(
    ("text", "moment", "value"),
    [
        ("hour(opened)", "2024-05-01T23:59:59.999", 23),
        ("minute_of_day(opened)", "2024-05-01T23:59:59.999", 1439),
        ("weekday(opened)", "2024-05-05T12:00", 7),  # a Sunday
        ("weekday(opened)", "2024-05-06T00:00", 1),
        ("day(opened)", "2024-02-29T00:00", 29),
        ("month(opened)", "2024-12-31T23:59", 12),
        ("hour(opened, 'UTC')", "2024-05-01T23:00", 23),
        ("hour(opened, 'Europe/Berlin')", "2024-05-01T22:00", 0),
        ("day(opened, 'Europe/Berlin')", "2024-05-01T22:00", 2),
        ("month(opened, 'Pacific/Kiritimati')", "2023-11-30T10:00", 12),
        ("minute_of_day(opened, 'Europe/Berlin')", "2024-03-31T00:59:59.999", 119),
        ("minute_of_day(opened, 'Europe/Berlin')", "2024-03-31T01:00", 180),
        ("minute_of_day(opened, 'Europe/Berlin')", "2024-10-27T00:59", 179),
        ("minute_of_day(opened, 'Europe/Berlin')", "2024-10-27T01:00", 120),
        ("hour(opened, 'America/New_York')", "2024-03-10T06:59", 1),
        ("hour(opened, 'America/New_York')", "2024-03-10T07:00", 3),
        ("minute_of_day(opened, 'Australia/Lord_Howe')", "2024-04-06T14:59", 119),
        ("minute_of_day(opened, 'Australia/Lord_Howe')", "2024-04-06T15:00", 90),
        ("minute_of_day(opened, 'Asia/Kathmandu')", "2024-05-01T00:00", 345),
        ("hour(opened, 'Europe/Berlin')", "2099-07-01T12:00", 14),  # by the rule after the last listed change
        ("hour(opened)", "1969-12-31T23:59:59.999", None),
        ("hour(opened)", "1970-01-01T00:00", 0),
        ("hour(opened, 'America/New_York')", "1970-01-01T00:00", 19),  # the year is that of UTC
        ("hour(opened)", "2099-12-31T23:59:59.999", 23),
        ("hour(opened)", "2100-01-01T00:00", None),
        ("hour(opened, 'America/New_York')", "2100-01-01T00:00", None),
    ],
)
def test_clocks_show_local_time(text: str, moment: str, value: int | None) -> None:
    assert number(text, opened=ms(moment)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("coalesce(points, 7)", 7),
        ("coalesce(payeeId, 7)", 1),
        ("coalesce(points, points)", None),
        ("coalesce(points, coalesce(points, payeeId))", 1),
        ("coalesce(payeeId / 0, -1)", -1),
    ],
)
def test_coalesce_is_the_second_where_the_first_is_null(text: str, value: int | None) -> None:
    assert number(text, payeeId=1) == value


@pytest.mark.parametrize(
    ("places", "metres"),
    [
        ("1, 0, 0, 0", 111_195),
        ("0, -1, 0, 0", 111_195),
        ("-7, 0, 0, 0", 778_366),
        ("0, 180, 0, 0", 20_015_114),
        ("90, 12, -90, 77", 20_015_114),
        ("10, 180, 10, -180", 0),
        ("52.5, 13.4, 52.5, 13.4", 0),
        ("52.520008, 13.404954, 40.712776, -74.005974", 6_385_009),
        ("90, 0, 90, 180", 0),
        ("91, 0, 0, 0", None),
        ("0, 0, -90.000001, 0", None),
        ("0, 180.000001, 0, 0", None),
        ("0, 0, 0, -181", None),
    ],
)
def test_distances_are_whole_metres_on_the_sphere(places: str, metres: int | None) -> None:
    assert number(f"distance_m({places})") == metres


@pytest.mark.parametrize(
    ("degrees", "metres"),
    [("168.438239", 18_729_503), ("36.254729", 4_031_347), ("29.837026", 3_317_731), ("162.020536", 18_015_887)],
)
def test_more_digits_decide_close_to_half_a_metre(degrees: str, metres: int) -> None:
    """Along the equator, in millionths of a degree, these are nearest to half a metre: within 8 nanometres."""
    assert sphere.distance_m(Fraction(0), Fraction(0), Fraction(0), Fraction(degrees)) == metres


@pytest.mark.parametrize(
    "text",
    [
        "points + 1 = 1",
        "1 - points = 1",
        "points * 0 = 0",
        "0 / points = 0",
        "-points = 1",
        "abs(points) = 1",
        "round(points) = 1",
        "round(points, 2) = 1",
        "lower(country) = ''",
        "length(country) = 0",
        "substring(country, 1, 1) = ''",
        "country like '%'",
        "hour(opened) = 1",
        "eventTime - opened > 0",
        "distance_m(latitude, longitude, 0, 0) = 0",
        "distance_m(0, 0, 0, points) = 0",
        "coalesce(points, points) = 1",
        "points in (1, 2)",
        "points between 1 and 2",
        "points = points",
        "cardPresent",
        "cardPresent = true",
        "cardPresent != cardPresent",
        "(points = 1) = (points = 1)",
        "points = 1 or points = 2",
        "points = 1 and eventTime > 0",
    ],
)
def test_a_null_operand_gives_null(text: str) -> None:
    assert truth(text, eventTime=1) is None
    assert truth(f"not ({text})", eventTime=1) is None
    assert truth(f"({text}) is null", eventTime=1) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("points is null", True),
        ("points + 1 is not null", False),
        ("points = 1 or payeeId = 1", True),
        ("points = 1 and payeeId = 2", False),
        ("payeeId between 2 and points", False),  # false and unknown is false
        ("payeeId between 1 and points", None),
        ("payeeId not between 2 and points", True),
        ("payeeId in (2, 1)", True),
        ("coalesce(cardPresent, false) = false", True),
        ("coalesce(points = 1, true)", True),
        ("coalesce(1, points) = 1", True),
        ("coalesce(1, points) is not null", True),
        ("coalesce(cardPresent, false) = cardPresent", None),
        ("(cardPresent and payeeId = 1) is null", True),
        ("coalesce(country, 'XX') = 'XX'", True),
    ],
)
def test_logic_is_three_valued(text: str, expected: bool | None) -> None:
    assert truth(text, payeeId=1) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("not payeeId = 1 or cardPresent", True),  # (not a) or b
        ("cardPresent or cardPresent and payeeId = 2", True),  # a or (b and c)
        ("not cardPresent and payeeId = 2", False),
        ("NOT (cardPresent AND payeeId = 2)", True),
        ("cardPresent and not (hour(eventTime) between 7 and 21)", True),
        ("payeeId + 1 = 2 and payeeId * 2 <> 3", True),
        ("payeeId = 1 - 0", True),
        ("cardPresent = (payeeId = 1)", True),
        ("(payeeId) = ((1))", True),
        ("-payeeId + 2 = 1", True),
        ("payeeId not in (2, -1)", True),
        ("payeeId in (1.0, 2)", True),
        ("payeeId Between 0 And 2", True),
        ("TRUE = cardPresent", True),
        ("payeeId = 1 -- payeeId", False),  # 1 minus minus 1
        ("payerId = 1", True),
    ],
)
def test_operators_bind_in_the_order_of_the_specification(text: str, expected: bool) -> None:
    assert truth(text, payeeId=1, cardPresent=True, eventTime=ms("2024-05-01T22:00")) is expected


@pytest.mark.parametrize(
    ("fits", "too_many"),
    [
        ("payeeId * points > 1", "payeeId * points + 1 > 1"),  # 38, and one more
        ("-payeeId * points > 1", "round(payeeId * points) > 1"),
        ("abs(payeeId * points) > 1", "payeeId * points * 10 > 1"),
        ("price * payeeId > 1", "price * payeeId * 10 > 1"),  # 14 + 19, 4
        ("paymentAmount * paymentAmount + 1 > 1", "paymentAmount * paymentAmount * 100 > 1"),  # 32, 4
        ("payeeId / 0.000000000001 > 1", "payeeId / 0.0000000000001 > 1"),  # 19 + 12 + 1, 6
        ("round(paymentAmount * paymentAmount, 5) > 1", "round(paymentAmount * paymentAmount, 6) > 1"),  # 33, n
        ("coalesce(payeeId * payeeId, 1) > 1", "coalesce(payeeId * payeeId, 0.1) > 1"),
        ("(opened - eventTime) * 100000000000000000 > 1", "(opened - eventTime) * 1000000000000000000 > 1"),
        ("length(country) * 1000000000000000000000000000 > 1", "length(country) * 10000000000000000000000000000 > 1"),
        ("points * hour(opened) * 10000000000000000 > 1", "points * hour(opened) * 100000000000000000 > 1"),
        (
            "points * minute_of_day(opened) * 10000000000000 > 1",
            "points * minute_of_day(opened) * 1000000000000000 > 1",
        ),
        ("points * distance_m(0, 0, 0, 0) * 10000000000 > 1", "points * distance_m(0, 0, 0, 0) * 100000000000 > 1"),
        (f"points > {'9' * 38}", f"points > {'9' * 39}"),
        ("points > 1.50", f"points > 1.{'0' * 38}"),
    ],
)
def test_no_number_has_more_than_38_digits(fits: str, too_many: str) -> None:
    assert not refused(fits)
    assert refused(too_many)


@pytest.mark.parametrize("word", ["true", "FALSE", "like", "Like", "and", "null"])
def test_words_of_the_language_name_no_field(word: str) -> None:
    assert refused(f"{word} + 1 = points")


def test_each_comparison_names_a_field() -> None:
    wrong = ["1 + 1 = 2", "points = 1 or 1 = 1", "1 in (1)", "'a' like 'a'", "abs(1) is null", "1 between 0 and points"]
    assert [text for text in wrong if not refused(text)] == []


def test_a_list_has_the_type_of_its_expression() -> None:
    condition, lists = parse_when("lower(country) in list('a') or points + 1 not in list('b')", SCHEMA)
    assert lists == {"a": {FieldType.STRING}, "b": {FieldType.LONG}}
    row = {**NULLS, list_key("a"): frozenset({"kp"}), list_key("b"): frozenset({2, 3})}
    assert condition({**row, "country": "KP"}) is True
    assert condition({**row, "country": "DE"}) is None
    assert condition({**row, "country": "DE", "points": 1}) is False
    assert condition({**row, "points": 3}) is True
    with pytest.raises(FilterRefused):
        parse_filter("points in list('b')", SCHEMA)
    assert refused_by_oracle("paymentAmount in list('b')")
    assert refused_by_oracle("opened in list('b')")
    assert not refused_by_oracle("round(paymentAmount) in list('b')")


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        (20, "20"),
        (Decimal("1.5"), "1.5"),
        ("-7", "-7"),
        ("+5", "5"),
        ("1e3", "1000"),
        ("paymentAmount / 2", "4.01"),
        ("coalesce(points, 100)", "100"),
        ("points", None),
        ("1 / 0", None),
        ("2 * 3", "6"),
    ],
)
def test_a_limit_is_a_number_or_a_number_expression(limit: object, value: str | None) -> None:
    found = parse_limit(limit, SCHEMA)({**NULLS, "paymentAmount": Decimal("8.02")})
    assert found == (None if value is None else Fraction(value))


@pytest.mark.parametrize(
    "limit", ["country", "payeeId in (1, 2)", "cardPresent", "opened", "'7'", "", " 5 6", "5.", "1e"]
)
def test_a_limit_of_another_type_is_refused(limit: str) -> None:
    assert is_expression(limit)
    with pytest.raises(FilterRefused):
        parse_limit(limit, SCHEMA)

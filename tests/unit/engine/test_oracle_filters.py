"""The oracle's own filter parser and key hash against the product's: same texts accepted, same rows passed."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.engine.keygroup import hash_text, key_groups_of
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from tests.support.conformance import load_cases, load_schema
from tests.support.oracle import filters
from tests.support.oracle.key_groups import key_group
from tests.support.places import ROOT
from tests.support.streams import generated, long
from tests.support.streams.columns import columns_of

SCHEMA = load_schema("nullable")
ROOMY = RuleLimits(max_filter_chars=20_000, max_filter_depth=200, max_filter_tokens=5_000)
ROWS = 40
_VALUES: dict[str, list[Any]] = {
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
"""Values of each field, near the literals of the filters."""


def rows_of(seed: int) -> list[dict[str, Any]]:
    chance = Random(seed)
    return [{name: chance.choice(values) for name, values in _VALUES.items()} for _ in range(ROWS)]


def by_product(text: str, rows: list[dict[str, Any]]) -> list[bool] | None:
    """The rows that pass, or None for a text that is refused."""
    try:
        tree = parse_filter(text, SCHEMA, ROOMY)
    except RuleRejected:
        return None
    return [bool(passes) for passes in tree.mask(columns_of(SCHEMA, rows), len(rows))]


def by_oracle(text: str, rows: list[dict[str, Any]]) -> list[bool] | None:
    try:
        condition = filters.parse_filter(text, SCHEMA)
    except filters.FilterRefused:
        return None
    return [condition(row) is True for row in rows]


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


@pytest.mark.parametrize("text", corpus())
def test_every_filter_of_the_corpus_means_the_same_to_both(text: str) -> None:
    rows = rows_of(len(text))
    assert by_oracle(text, rows) == by_product(text, rows)


@pytest.mark.parametrize(
    "text",
    [
        "paymentType = 'it''s'",
        "'CSH' = paymentType",
        "paymentType < 'CSH' OR paymentType IS NULL",
        "paymentType NOT IN ('CSH', '')",
        "payerId = 1",
        "2.505 > paymentAmount",
        "paymentAmount NOT BETWEEN points AND 2.50",
        "2 between points and payeeId",
        "not not points = 1 and not points = 2 or points is not null",
        "points = 1 or points = 2 and payeeId = 3",
        "eventTime = '2024-05-01T10:00:00Z'",
        "eventTime < '2024-05-01T12:00:00+02:00'",
        "ingestionTimestamp >= eventTime",
        "payeeId in (9223372036854775807, -9223372036854775808)",
        "cardPresent",
        "cardPresent and not points = 1 or not cardPresent",
        "cardPresent = TRUE",
        "false <> cardPresent",
        "not (cardPresent != False) and cardPresent is not null",
    ],
)
def test_every_form_of_a_condition_means_the_same_to_both(text: str) -> None:
    rows = rows_of(7)
    found = by_oracle(text, rows)
    assert found is not None and any(found) and not all(found)
    assert found == by_product(text, rows)


@pytest.mark.parametrize(
    "text",
    [
        "", "points", "points =", "= 1", "1 = 1", "points = null", "points = 'x'", "paymentType = 1", "points == 1",
        "points = 1 points = 2", "(points = 1", "points = 1)", "points in ()", "points in (1,)", "points in 1",
        "points in (payeeId)", "1 in (1)", "1 is null", "points is", "points is not", "points not = 1", "points not 1",
        "points between 1", "points between 1 and", "points between 1 or 2", "points = paymentType",
        "points = eventTime",
        "eventTime = '2024-05-01'", "eventTime = '2024-W18-3'", "eventTime = '20240501T100000Z'",
        "eventTime > 1600000000", "eventTime = '2024-05-01T24:00:00Z'", "points = 1 and and points = 2",
        "points in in (1)",
        "eventTime = 'soon'", "eventTime = '2024-05-01T10:00:00.0001Z'", "points = 1e3", "points = .5", "points = 5.",
        "points = 1x", "unknown = 1", "Points = 1", "points = 1 and", "not", "points = 1; points = 2", "points = 'x",
        "true", "true = false", "cardPresent = 1", "cardPresent = 'true'", "cardPresent > false", "points = true",
        "cardPresent between false and true", "cardPresent in (true)", "cardPresent = points", "cardPresent = null",
        "not points", "cardPresent true", "cardPresent = cardPresent = true", "cardPresent < cardPresent",
        'points = "1"', "points ! = 1", "points = 1 && points = 2",
    ],
)  # fmt: skip
def test_both_refuse_invalid_filters(text: str) -> None:
    assert by_oracle(text, []) is None
    assert by_product(text, []) is None


_LITERALS = {
    "paymentAmount": st.sampled_from(["1", "2.5", "2.505", "-3", generated.BIG]),
    "points": st.sampled_from(["0", "1", "2.5", "3", "9223372036854775808"]),
    "payeeId": st.sampled_from(["1", "-1", "3", "9223372036854775807"]),
    "paymentType": st.sampled_from(["'CSH'", "'CRD'", "''", "'it''s'"]),
    "eventTime": st.sampled_from([str(generated.START_MS + 2000), "'2024-05-01T10:00:00Z'"]),
}
_SIGNS = st.sampled_from(["=", "!=", "<>", ">=", "<=", ">", "<"])


@st.composite
def conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(_LITERALS)))
    literal, negation = _LITERALS[name], draw(st.sampled_from(["", "not ", "NOT "]))
    match draw(st.integers(0, 6)):
        case 0:
            return f"{name} {draw(_SIGNS)} {draw(literal)}"
        case 1:
            return f"{draw(literal)}{draw(_SIGNS)}{name}"
        case 2:
            return f"{name} {negation}between {draw(literal)} and {draw(literal)}"
        case 3:
            return f"{name} {negation}in ({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})"
        case 4:
            return f"{name} is {negation}null"
        case 5:
            compared = draw(st.sampled_from(["", " = true", "!= FALSE", " <> cardPresent"]))
            return f"{negation}cardPresent{compared}"
        case _:
            numbers = st.sampled_from(["paymentAmount", "points", "payeeId", "beneficiaryId"])
            return f"{draw(numbers)} {draw(_SIGNS)} {draw(numbers)}"


TEXTS = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        inner.map(lambda a: f"not {a}"),
        inner.map(lambda a: f"({a})"),
        st.tuples(inner, st.sampled_from([" and ", " or ", " AND\n"]), inner).map("".join),
    ),
    max_leaves=8,
)


@settings(max_examples=500)
@given(TEXTS, st.integers(0, 1_000))
def test_generated_filters_mean_the_same_to_both(text: str, seed: int) -> None:
    rows = rows_of(seed)
    found = by_oracle(text, rows)
    assert found is not None
    assert found == by_product(text, rows)


@settings(max_examples=500)
@given(
    TEXTS,
    st.integers(0, 200),
    st.integers(0, 3),
    st.sampled_from(["", " ", "(", ")", "not ", "and", "'", "1", "=", ","]),
)
@example("points = 1", 0, 0, "or ")
def test_both_accept_the_same_broken_filters(text: str, place: int, gone: int, put: str) -> None:
    """A filter with some characters left out and others put in their place."""
    at = place % (len(text) + 1)
    broken, rows = text[:at] + put + text[at + gone :], rows_of(place)
    assert by_oracle(broken, rows) == by_product(broken, rows)


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["payeeId", "beneficiaryId", "paymentType"]), max_size=3, unique=True).map(sorted),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5), min_size=3, max_size=3),
    st.integers(1, 500),
)
def test_a_key_has_the_same_key_group_to_both(names: list[str], values: list[int | str], key_groups: int) -> None:
    values = values[: len(names)]
    hashes = [
        np.array([hash_text(v) if isinstance(v, str) else v & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64) for v in values
    ]
    assert key_group(names, values, key_groups) == key_groups_of(names, hashes, 1, key_groups)[0]

"""Conditions: their bounds, the fields and lists that they read, and their unknown names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.filter import parse_filter, parse_number
from fraud_rules.errors import RuleRejected
from fraud_rules.model.expressions.lookups import ListMembership
from fraud_rules.model.limits import UNBOUNDED, LoggedRuleLimits, RuleLimits
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.conformance import load_schema
from tests.support.streams.columns import columns_of

SCHEMA = load_schema("third_edition")
LIMITS = RuleLimits()


def passing(text: str, *rows: dict[str, int], schema: TransactionSchema = SCHEMA) -> list[bool]:
    """Apply a filter to rows. Fields that a row omits are null."""
    cells = [dict.fromkeys(schema.names) | row for row in rows]
    mask = parse_filter(text, schema, LIMITS).mask(columns_of(schema, cells), len(rows))
    assert mask.dtype == np.bool_
    return [bool(passes) for passes in mask]


def test_a_column_of_nothing_but_nulls() -> None:
    assert passing("paymentType != 'CSH'", {}, {}) == [False, False]
    assert passing("paymentType = paymentType", {}, {}) == [False, False]
    assert passing("paymentType is null", {}, {}) == [True, True]
    assert passing("paymentType = 'CSH'") == []


def test_the_fields_a_filter_reads() -> None:
    tree = parse_filter("payerId = 1 or not (paymentType in ('a') and paymentAmount > payeeId)", SCHEMA, LIMITS)
    assert tree.fields == {"payeeId", "paymentType", "paymentAmount"}


def test_every_wrong_field_and_type_is_named_at_once() -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter("a = 1 and (payeeId = 'x' or b in (1)) and 1 = 2 and a = 1", SCHEMA, LIMITS)
    assert len(rejected.value.reasons) == 4


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("paymentTyp = CSH and", ["'paymentTyp'", "'CSH'"]),
        ("amount > 5 and amount =", ["'amount'"]),
        ("nowhere = 1 payeeId = other", ["'nowhere'"]),
        ("hour(nowhere) = our(1) and", ["'nowhere'", "'our'"]),
        ("paymentType like C", []),
    ],
)
def test_unknown_fields_are_named_up_to_a_syntax_error(text: str, unknown: list[str]) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, SCHEMA, LIMITS)
    _, *others = (reason.message for reason in rejected.value.reasons)
    assert [each.split()[0] for each in others] == unknown


def test_as_deep_and_as_long_as_the_bounds_allow() -> None:
    deep = "not (payeeId = 1 and " * 31 + "(payeeId = 1)" + ")" * 31
    wide = " or ".join(["payeeId = 1"] * 100)
    assert passing(deep, {"payeeId": 1}) == [False]
    assert passing(wide, {"payeeId": 1}, {"payeeId": 2}) == [True, False]
    assert passing("not " * 397 + "payeeId = 1", {"payeeId": 1}) == [False]


ROOMY = RuleLimits(max_filter_depth=100, max_filter_tokens=2_000)


@given(st.text(max_size=80) | st.text(alphabet="payeId=()<>'1.- andortinull,", max_size=80))
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    try:
        tree = parse_filter(text, SCHEMA, LIMITS)
    except RuleRejected as rejected:
        assert rejected.reasons
    else:
        assert parse_filter(str(tree), SCHEMA, ROOMY) == tree


WORDS_AS_FIELDS = TransactionSchema((*SCHEMA.fields, Field("true", FieldType.LONG), Field("like", FieldType.LONG)))


@pytest.mark.parametrize("text", ["true = 3", "like = 3", "payeeId > +3", "eventTime > 1.5"])
def test_only_a_rule_in_the_log_has_an_old_form(text: str) -> None:
    with pytest.raises(RuleRejected):
        parse_filter(text, WORDS_AS_FIELDS, LIMITS)
    tree = parse_filter(text, WORDS_AS_FIELDS, LoggedRuleLimits())
    assert parse_filter(str(tree), WORDS_AS_FIELDS, UNBOUNDED) == tree


def test_a_word_of_the_language_names_no_field() -> None:
    assert passing("coalesce(payeeId > 1, FALSE) = True", {"payeeId": 3}, schema=WORDS_AS_FIELDS) == [True]
    with pytest.raises(RuleRejected, match="'like' is a word of the language"):
        parse_filter("like > 1", WORDS_AS_FIELDS, LIMITS)


def test_chains_within_the_bounds_are_evaluated() -> None:
    deep = "coalesce(" * 31 + "abs(payeeId)" + ", 1)" * 31
    assert passing(f"{deep} = 7", {"payeeId": 7}) == [True]
    assert passing("payeeId" + " + 1" * 18 + " = 25", {"payeeId": 7}) == [True]
    assert passing("payeeId" + " * 0" * 190 + " = 0", {"payeeId": 7}) == [True]
    assert passing("- " * 300 + "payeeId = 7", {"payeeId": 7}) == [True]


def test_the_lists_of_a_condition_are_known() -> None:
    text = "not (payeeId in list('a') and (paymentType in list('b') or payeeId not in list('c')))"
    found = parse_filter(text, SCHEMA, RuleLimits(), "when").lookups
    assert {(str(each.item), each.name, each.negated) for each in found} == {
        ("payeeId", "a", False),
        ("paymentType", "b", False),
        ("payeeId", "c", True),
    }
    assert all(isinstance(each, ListMembership) for each in found)


def test_an_expression_names_the_fields_of_both_payments() -> None:
    tree = parse_number("paymentAmount * 2 + previous(merchantCategory)", SCHEMA, LIMITS, "limit")
    assert (tree.fields, tree.previous_fields) == ({"paymentAmount", "merchantCategory"}, {"merchantCategory"})
    assert tree.digits == (20, 2)  # those of a long, and one more before the point

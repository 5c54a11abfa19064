"""The filter language: its text, its types and its reasons."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import UNBOUNDED, LoggedRuleLimits, RuleLimits
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.places import ROOT
from tests.support.streams.columns import columns_of

SCHEMA = TransactionSchema.load(ROOT / "config" / "schema.yaml")
LIMITS = RuleLimits()

Cell = int | Decimal | str | None
Row = dict[str, Cell]


def passing(text: str, *rows: Row, schema: TransactionSchema = SCHEMA) -> list[bool]:
    """Apply a filter to rows. Fields that a row omits are null."""
    cells = [dict.fromkeys(schema.names) | row for row in rows]
    mask = parse_filter(text, schema, LIMITS).mask(columns_of(schema, cells), len(rows))
    assert mask.dtype == np.bool_
    return [bool(passes) for passes in mask]


def amounts(*cells: str) -> list[Row]:
    return [{"paymentAmount": Decimal(cell)} for cell in cells]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("paymentAmount = 6", [False, True, False]),
        ("paymentAmount = 6.000", [False, True, False]),
        ("paymentAmount != 6", [True, False, True]),
        ("paymentAmount <> 6", [True, False, True]),
        ("paymentAmount >= 6", [False, True, True]),
        ("6 < paymentAmount", [False, False, True]),
        ("paymentAmount between 5.99 and 6", [True, True, False]),
        ("paymentAmount not between 5.99 and 6", [False, False, True]),
        ("paymentAmount in (5.99, 6.01)", [True, False, True]),
        ("paymentAmount not in (5.99, 6.01)", [False, True, False]),
        # A literal finer than the column's scale lies between two of its values.
        ("paymentAmount > 6.005", [False, False, True]),
        ("paymentAmount >= 6.005", [False, False, True]),
        ("paymentAmount < 6.005", [True, True, False]),
        ("paymentAmount <= 6.005", [True, True, False]),
        ("paymentAmount = 6.005", [False, False, False]),
        ("paymentAmount != 6.005", [True, True, True]),
        ("paymentAmount in (6.005, 6)", [False, True, False]),
        # A literal beyond 64 bits is beyond every value.
        ("paymentAmount < 999999999999999999999", [True, True, True]),
        ("paymentAmount > 999999999999999999999", [False, False, False]),
        ("paymentAmount > -99999999999999999999.5", [True, True, True]),
        ("paymentAmount in (999999999999999999999, 6)", [False, True, False]),
    ],
)
def test_amounts_compare_exactly(text: str, expected: list[bool]) -> None:
    assert passing(text, *amounts("5.99", "6.00", "6.01")) == expected


def test_amounts_below_zero_round_towards_nothing() -> None:
    rows = amounts("-6.01", "-6.00")
    assert passing("paymentAmount < -6.005", *rows) == [True, False]
    assert passing("paymentAmount >= -6.005", *rows) == [False, True]


def test_the_ends_of_64_bits() -> None:
    rows: list[Row] = [{"payeeId": -(2**63)}, {"payeeId": 2**63 - 1}]
    assert passing(f"payeeId = {2**63 - 1}", *rows) == [False, True]
    assert passing(f"payeeId < {2**63}", *rows) == [True, True]
    assert passing(f"payeeId <= {-(2**63)}", *rows) == [True, False]
    assert passing(f"payeeId < {-(2**63)}.5", *rows) == [False, False]
    assert passing("payeeId > paymentAmount", *({**row, "paymentAmount": Decimal("-0.01")} for row in rows)) == [
        False,
        True,
    ]


def test_a_column_of_nothing_but_nulls() -> None:
    assert passing("paymentType != 'CSH'", {}, {}) == [False, False]
    assert passing("paymentType = paymentType", {}, {}) == [False, False]
    assert passing("paymentType is null", {}, {}) == [True, True]
    assert passing("paymentType = 'CSH'") == []


def test_fields_compare_with_fields_of_any_scale() -> None:
    rows: list[Row] = [
        {"payeeId": 5, "paymentAmount": Decimal("5.00")},
        {"payeeId": 5, "paymentAmount": Decimal("5.01")},
        {"payeeId": -5, "paymentAmount": Decimal("-5.01")},
        {"payeeId": 5, "paymentAmount": None},
    ]
    assert passing("payeeId = paymentAmount", *rows) == [True, False, False, False]
    assert passing("payeeId < paymentAmount", *rows) == [False, True, False, False]
    assert passing("paymentAmount <= payeeId", *rows) == [True, False, True, False]
    assert passing("paymentAmount != payerId", *rows) == [False, True, True, False]
    assert passing("payeeId <= transactionId", {"payeeId": 1, "transactionId": 1}) == [True]


def test_strings_compare_with_strings_of_another_dictionary() -> None:
    extra = Field("channel", FieldType.STRING)
    schema = replace(SCHEMA, fields=(*SCHEMA.fields, extra))
    rows: list[Row] = [
        {"paymentType": "b", "channel": "a"},
        {"paymentType": "a", "channel": "a"},
        {"paymentType": "a", "channel": "c"},
    ]
    assert passing("paymentType < channel", *rows, schema=schema) == [False, False, True]
    assert passing("paymentType = channel", *rows, schema=schema) == [False, True, False]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("PAYMENTTYPE", None),
        ("payerId=1", "payeeId = 1"),
        ("1 < payeeId", "payeeId > 1"),
        ("payeeId <> 1.50", "payeeId != 1.5"),
        ("payeeId = -0.0", "payeeId = 0"),
        ("payeeId In (3, 1.0, 1, 3)", "payeeId in (1, 3)"),
        ("paymentType NOT in ('b','a')", "paymentType not in ('a', 'b')"),
        ("payeeId between 1 and 2", "payeeId >= 1 and payeeId <= 2"),
        ("not not payeeId = 1", "payeeId = 1"),
        ("not payeeId = 1", "not (payeeId = 1)"),
        ("payeeId=1 and(payeeId=2 and payeeId=3)", "payeeId = 1 and payeeId = 2 and payeeId = 3"),
        ("payeeId=1 or payeeId=2 and payeeId=3", "payeeId = 1 or payeeId = 2 and payeeId = 3"),
        ("(payeeId=1 or payeeId=2) and payeeId=3", "(payeeId = 1 or payeeId = 2) and payeeId = 3"),
        ("((((payeeId = 1))))", "payeeId = 1"),
        ("eventTime > '1970-01-01 00:00:01'", "eventTime > 1000"),
        ("paymentType\n=\t'it''s'", "paymentType = 'it''s'"),
    ],
)
def test_canonical_text(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(RuleRejected):
            parse_filter(text, SCHEMA, LIMITS)
        return
    tree = parse_filter(text, SCHEMA, LIMITS)
    again = parse_filter(str(tree), SCHEMA, LIMITS)
    assert str(tree) == canonical
    assert (again, hash(again)) == (tree, hash(tree))


def test_the_fields_a_filter_reads() -> None:
    tree = parse_filter("payerId = 1 or not (paymentType in ('a') and paymentAmount > payeeId)", SCHEMA, LIMITS)
    assert tree.fields == {"payeeId", "paymentType", "paymentAmount"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        ("payeeId", "is incomplete"),
        ("payeeId =", "is incomplete"),
        ("payeeId = 1 and", "is incomplete"),
        ("(payeeId = 1", "is incomplete"),
        ("payeeId = 1)", "from character 12 on: ')'"),
        ("payeeId = = 1", "from character 11 on"),
        ("payeeId = 1 payeeId = 2", "from character 13 on"),
        ("payeeId = 1 andpayeeId = 2", "from character 13 on"),
        ("payeeId == 1", "from character 10 on"),
        ("payeeId in ()", "from character 13 on"),
        ("payeeId in (1, paymentAmount)", "cannot be read"),
        ("payeeId = null", "write `is null`"),
        ("payeeId = 1e3", "cannot be read"),
        ("payeeId = 0x10", "cannot be read"),
        ("payeeId = 1; drop table rules", "from character 12 on"),
        ("paymentType = \"CSH\"", "cannot be read"),
        ("paymentType = 'CSH", "cannot be read"),
        ("paymentType = 'C\x00'", "NUL"),
        ("nowhere = 1", "'nowhere' is not a declared field; the declared fields are transactionId"),
        ("PayeeId = 1", "'PayeeId' is not a declared field"),
        ("paymentType = 1", "paymentType is a string, it cannot be compared with '1'"),
        ("payeeId = 'x'", "payeeId is a long, it cannot be compared with 'x'"),
        ("payeeId in (1, 'x')", "payeeId is a long"),
        ("paymentAmount > 'x'", "paymentAmount is a decimal"),
        ("eventTime > 'soon'", "'soon' is not a time"),
        ("eventTime > '2024-01-01T00:00:00.0001Z'", "finer than a millisecond"),
        ("eventTime > '2023-11-14'", "'2023-11-14' is not a time"),
        ("eventTime > '2023-W46-2'", "is not a time"),
        ("eventTime > '20231114T000000Z'", "is not a time"),
        ("eventTime > '2023-11-14T24:00:00Z'", "is not a time"),
        ("eventTime > '2023-11-14T23:59:60Z'", "is not a time"),
        ("eventTime > '2023-11-14t22:13:20z'", "is not a time"),
        ("eventTime > '2023-11-14 22:13:20 UTC'", "is not a time"),
        ("eventTime > 1600000000", "in seconds it is 2020-09-13T12:26:40Z: write that time, or epoch milliseconds"),
        ("eventTime between 1600000000000000 and 2", "in microseconds it is 2020-09-13T12:26:40Z"),
        ("payeeId = 1 and and payeeId = 2", "from character 17 on: 'and payeeId = 2'"),
        ("payeeId = 1 or or payeeId = 2", "from character 16 on: 'or payeeId = 2'"),
        ("payeeId in in (1)", "cannot be read from character 12 on: 'in (1)'"),
        ("payeeId = paymentType", "payeeId (long) and paymentType (string) cannot be compared"),
        ("eventTime = payeeId", "cannot be compared"),
        ("1 = 1", "contains no field"),
        ("'a' in ('a')", "'a' is a literal; a field is required here"),
        ("1 is null", "'1' is a literal; a field is required here"),
        ("payeeId = " + "1" * 39, "has more than 38 digits"),
        ("payeeId = 1" + " " * 8_000, "has 8011 characters"),
        ("(" * 33 + "payeeId = 1" + ")" * 33, "is nested 33 levels deep"),
        ("(" * 4_000, "at most 400"),
        (" or ".join(["payeeId = 1"] * 101), "has 403 words and signs"),
        ("not " * 400 + "payeeId = 1", "has 403 words and signs"),
    ],
)  # fmt: skip
def test_an_invalid_filter_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, SCHEMA, LIMITS)
    assert {reason.field for reason in rejected.value.reasons} == {"filter"}
    assert message in rejected.value.reasons[0].message


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


FLAGS = TransactionSchema(
    (*SCHEMA.fields, *(Field(name, FieldType.BOOLEAN, nullable=True) for name in ("cardPresent", "recurring")))
)
USES = "it can be a condition by itself, or compared with true, false or a boolean field, with = or !="


@pytest.mark.parametrize(
    ("text", "canonical", "expected"),
    [
        ("cardPresent", "cardPresent", [True, False, False]),
        ("cardPresent = true", "cardPresent", [True, False, False]),
        ("FALSE <> cardPresent", "cardPresent", [True, False, False]),
        ("not cardPresent", "not (cardPresent)", [False, True, False]),
        ("cardPresent = False", "not (cardPresent)", [False, True, False]),
        ("not (cardPresent = false)", "cardPresent", [True, False, False]),
        ("(cardPresent) and payeeId = 1", "cardPresent and payeeId = 1", [True, False, False]),
        ("cardPresent != recurring", "cardPresent != recurring", [False, True, False]),
        ("cardPresent is null", "cardPresent is null", [False, False, True]),
    ],
)
def test_a_boolean_field_is_a_condition_by_itself(text: str, canonical: str, expected: list[bool]) -> None:
    rows: list[Row] = [
        {"payeeId": 1, "cardPresent": True, "recurring": True},
        {"payeeId": 1, "cardPresent": False, "recurring": True},
        {"payeeId": 1, "recurring": True},
    ]
    assert passing(text, *rows, schema=FLAGS) == expected
    tree = parse_filter(text, FLAGS, LIMITS)
    assert (str(tree), parse_filter(canonical, FLAGS, LIMITS)) == (canonical, tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cardPresent > true", f"cardPresent is a boolean; {USES}"),
        ("cardPresent < recurring", f"cardPresent and recurring are of type boolean; {USES}"),
        ("cardPresent = 1", f"cardPresent is a boolean, it cannot be compared with '1'; {USES}"),
        ("cardPresent = 'true'", f"cardPresent is a boolean, it cannot be compared with 'true'; {USES}"),
        ("cardPresent in (1)", f"cardPresent is a boolean, it cannot be compared with '1'; {USES}"),
        ("payeeId = true", "payeeId is a long, it cannot be compared with 'true'"),
        ("payeeId = cardPresent", "payeeId (long) and cardPresent (boolean) cannot be compared"),
        ("payeeId and cardPresent", "payeeId is a long, and only a boolean field is a condition by itself"),
        ("true", "'true' is a literal; a field is required here"),
        ("true = false", "'true' = 'false' contains no field"),
        ("cardPresent in (true)", "cannot be read from character 17 on: 'true)'"),
    ],
)
def test_another_use_of_a_boolean_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_filter(text, FLAGS, LIMITS)
    assert message in rejected.value.reasons[0].message


WORDS_AS_FIELDS = TransactionSchema((*SCHEMA.fields, Field("true", FieldType.LONG), Field("like", FieldType.LONG)))


@pytest.mark.parametrize("text", ["true = 3", "like = 3", "payeeId > +3", "eventTime > 1.5"])
def test_only_a_rule_in_the_log_has_an_old_form(text: str) -> None:
    with pytest.raises(RuleRejected):
        parse_filter(text, WORDS_AS_FIELDS, LIMITS)
    tree = parse_filter(text, WORDS_AS_FIELDS, LoggedRuleLimits())
    assert parse_filter(str(tree), WORDS_AS_FIELDS, UNBOUNDED) == tree


def test_a_word_of_the_language_names_no_field() -> None:
    rows: list[Row] = [{"payeeId": 3}]
    assert passing("coalesce(payeeId > 1, FALSE) = True", *rows, schema=WORDS_AS_FIELDS) == [True]
    with pytest.raises(RuleRejected, match="'like' is a word of the language"):
        parse_filter("like > 1", WORDS_AS_FIELDS, LIMITS)


def test_a_boolean_is_in_no_list() -> None:
    with pytest.raises(RuleRejected, match="cardPresent is a boolean; lists have values of type long or string"):
        parse_filter("cardPresent in list('mules')", FLAGS, LIMITS, "when")

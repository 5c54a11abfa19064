"""The filter language: its text, its types, and its three-valued truth over columns."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import UNBOUNDED, LoggedRuleLimits, RuleLimits
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column
from tests.support.places import ROOT

SCHEMA = TransactionSchema.load(ROOT / "config" / "schema.yaml")
LIMITS = RuleLimits()

Cell = int | Decimal | str | None
Row = dict[str, Cell]


def column(field: Field, cells: list[Cell]) -> Column:
    """The cells of one field as the codec would lay them out: nulls as zeros, decimals unscaled, strings as codes."""
    valid = None if None not in cells else np.array([cell is not None for cell in cells])
    if field.type is FieldType.STRING:
        words = tuple(dict.fromkeys(str(cell) for cell in cells if cell is not None))
        codes = [0 if cell is None else words.index(str(cell)) for cell in cells]
        return Column(np.array(codes, dtype=np.int64), valid, words)
    unscaled = [0 if cell is None else int(Decimal(cell).scaleb(field.scale)) for cell in cells]
    return Column(np.array(unscaled, dtype=np.int64), valid, None)


def passing(text: str, *rows: Row, schema: TransactionSchema = SCHEMA) -> list[bool]:
    """Apply a filter to rows. Fields that a row omits are null."""
    columns = {field.name: column(field, [row.get(field.name) for row in rows]) for field in schema.fields}
    mask = parse_filter(text, schema, LIMITS).mask(columns, len(rows))
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("paymentType = 'CSH'", [True, False, False]),
        ("paymentType != 'CSH'", [False, True, False]),
        ("not paymentType = 'CSH'", [False, True, False]),
        ("paymentType < 'CSH'", [False, True, False]),
        ("paymentType >= 'CRD'", [True, True, False]),
        ("paymentType in ('CSH', 'CHQ')", [True, False, False]),
        ("paymentType not in ('CSH', 'CHQ')", [False, True, False]),
        ("paymentType is null", [False, False, True]),
        ("paymentType IS NOT NULL", [True, True, False]),
        ("paymentType = 'CSH' or paymentType is null", [True, False, True]),
        ("paymentType = 'CSH' or payeeId = 3", [True, False, True]),
        ("paymentType = 'CSH' and payeeId = 3", [False, False, False]),
        ("not (paymentType = 'CSH' and payeeId = 3)", [True, True, False]),
        ("not (paymentType = 'CSH' or payeeId = 4)", [False, True, False]),
    ],
)
def test_an_unknown_condition_and_its_negation_do_not_pass(text: str, expected: list[bool]) -> None:
    rows: list[Row] = [
        {"paymentType": "CSH", "payeeId": 1},
        {"paymentType": "CRD", "payeeId": 2},
        {"paymentType": None, "payeeId": 3},
    ]
    assert passing(text, *rows) == expected


def test_a_column_of_nothing_but_nulls() -> None:
    assert passing("paymentType != 'CSH'", {}, {}) == [False, False]
    assert passing("paymentType = paymentType", {}, {}) == [False, False]
    assert passing("paymentType is null", {}, {}) == [True, True]
    assert passing("paymentType = 'CSH'") == []


def test_quotes_and_code_points_in_text() -> None:
    rows: list[Row] = [{"paymentType": text} for text in ("it's", "'", "", "\U0001f600", "\uffff")]
    assert passing("paymentType = 'it''s'", *rows) == [True, False, False, False, False]
    assert passing("paymentType in ('''', '')", *rows) == [False, True, True, False, False]
    # By code point: UTF-16 would put the face first.
    assert passing("paymentType > '\uffff'", *rows) == [False, False, False, True, False]


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


def test_times_are_read_as_utc() -> None:
    rows: list[Row] = [{"eventTime": 1_700_000_000_000}, {"eventTime": 1_700_000_000_001}]
    assert passing("eventTime > 1700000000000", *rows) == [False, True]
    assert passing("eventTime <= '2023-11-14 22:13:20'", *rows) == [True, False]
    assert passing("eventTime = '2023-11-14T22:13:20.001Z'", *rows) == [False, True]
    assert passing("eventTime in ('2023-11-14T23:13:20+01:00')", *rows) == [True, False]


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


# A condition as text, with its truth for one row as in SQL: True, False, or None for unknown.
Truth = bool | None
Condition = tuple[str, Callable[[Row], Truth]]

OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
NUMBERS = ("payeeId", "beneficiaryId", "paymentAmount")
LITERALS = st.decimals(min_value=-4, max_value=4, places=3) | st.integers(-4, 4).map(Decimal)
WORDS = st.sampled_from(["", "a", "it's", "b"])


def compared(left: str, sign: str, right: str | Decimal) -> Condition:
    def truth(row: Row) -> Truth:
        a, b = row[left], row[right] if isinstance(right, str) else right
        return None if a is None or b is None else OPERATORS[sign](a, b)

    return f"{left} {sign} {right if isinstance(right, str) else format(right, 'f')}", truth


def compared_text(sign: str, word: str) -> Condition:
    def truth(row: Row) -> Truth:
        found = row["paymentType"]
        return None if found is None else OPERATORS[sign](found, word)

    return "paymentType {} '{}'".format(sign, word.replace("'", "''")), truth


def listed(name: str, literals: list[Decimal], negated: bool) -> Condition:
    def truth(row: Row) -> Truth:
        return None if row[name] is None else (row[name] in literals) is not negated

    return f"{name}{' not' if negated else ''} in ({', '.join(format(item, 'f') for item in literals)})", truth


def null_test(name: str, negated: bool) -> Condition:
    return f"{name} is {'not ' if negated else ''}null", lambda row: (row[name] is None) is not negated


def negated(inner: Condition) -> Condition:
    def truth(row: Row) -> Truth:
        found = inner[1](row)
        return None if found is None else not found

    return f"not ({inner[0]})", truth


def joined(word: str, parts: list[Condition]) -> Condition:
    decisive = word == "or"

    def truth(row: Row) -> Truth:
        found = [part[1](row) for part in parts]
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    return f" {word} ".join(f"({part[0]})" for part in parts), truth


LEAVES = (
    st.builds(compared, st.sampled_from(NUMBERS), st.sampled_from(list(OPERATORS)), LITERALS)
    | st.builds(compared, st.sampled_from(NUMBERS), st.sampled_from(list(OPERATORS)), st.sampled_from(NUMBERS))
    | st.builds(compared_text, st.sampled_from(list(OPERATORS)), WORDS)
    | st.builds(listed, st.sampled_from(NUMBERS), st.lists(LITERALS, min_size=1, max_size=4), st.booleans())
    | st.builds(null_test, st.sampled_from([*NUMBERS, "paymentType"]), st.booleans())
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(negated, inner)
        | st.builds(joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=8,
)
ROWS = st.fixed_dictionaries(
    {
        "payeeId": st.none() | st.integers(-4, 4),
        "beneficiaryId": st.none() | st.integers(-4, 4),
        "paymentAmount": st.none() | st.decimals(min_value=-4, max_value=4, places=2),
        "paymentType": st.none() | WORDS,
    }
)
ROOMY = RuleLimits(max_filter_depth=100, max_filter_tokens=2_000)


@settings(max_examples=300)
@given(CONDITIONS, st.lists(ROWS, min_size=1, max_size=6))
def test_any_condition_passes_exactly_its_true_rows(condition: Condition, rows: list[Row]) -> None:
    text, truth = condition
    tree = parse_filter(text, SCHEMA, ROOMY)
    columns = {field.name: column(field, [row.get(field.name) for row in rows]) for field in SCHEMA.fields}
    assert tree.mask(columns, len(rows)).tolist() == [truth(row) is True for row in rows]
    again = parse_filter(str(tree), SCHEMA, ROOMY)
    assert (again, str(again), hash(again)) == (tree, str(tree), hash(tree))
    assert tree.fields <= set(SCHEMA.names)


@settings(max_examples=300)
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

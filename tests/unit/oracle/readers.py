"""A text of the language as the product and as the oracle read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fraud_rules.codec.rules.filter import parse_filter, parse_number
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle import filters
from tests.support.streams.columns import columns_of
from tests.support.streams.expressions import SCHEMA

ROOMY = RuleLimits(max_filter_chars=20_000, max_filter_depth=200, max_filter_tokens=5_000)
Rows: TypeAlias = Sequence[Mapping[str, Any]]


def by_product(text: str, rows: Rows, schema: TransactionSchema = SCHEMA) -> list[bool] | None:
    """The rows that pass, or None for a text that is refused. The canonical text has the same tree."""
    try:
        tree = parse_filter(text, schema, ROOMY)
    except RuleRejected:
        return None
    again = parse_filter(str(tree), schema, ROOMY)
    assert (again, str(again), hash(again)) == (tree, str(tree), hash(tree))
    return [bool(passes) for passes in tree.mask(columns_of(schema, rows), len(rows))]


def by_oracle(text: str, rows: Rows, schema: TransactionSchema = SCHEMA) -> list[bool] | None:
    """The rows that pass, or None for a text that is refused."""
    try:
        condition = filters.parse_filter(text, schema)
    except filters.FilterRefused:
        return None
    return [condition(row) is True for row in rows]


def numbers_by_product(text: str, rows: Rows) -> list[Fraction | None]:
    """The exact value of a number expression for each row. It has no more digits than the expression declares."""
    number = parse_number(text, SCHEMA, ROOMY, "limit")
    assert parse_number(str(number), SCHEMA, ROOMY, "limit") == number
    found, unit = number.evaluate(columns_of(SCHEMA, rows), len(rows)), 10**number.digits.after
    valid = np.broadcast_to(True if found.valid is None else found.valid, len(rows)).tolist()
    whole = np.broadcast_to(found.values, len(rows)).tolist()
    values = [Fraction(each, unit) if known else None for each, known in zip(whole, valid, strict=True)]
    assert all(each is None or abs(each) < 10**number.digits.before for each in values)
    return values


def numbers_by_oracle(text: str, rows: Rows) -> list[Fraction | None]:
    """The exact value of a number expression for each row."""
    value = filters.parse_limit(text, SCHEMA)
    return [value(row) for row in rows]

"""Expressions are looked up in the version of a list that applies to each row."""

from __future__ import annotations

import numpy as np
import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.engine.lookups import lookup_columns
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.model.value_list import ListChange, ListOperation, ListType
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
BIG = 2**62
TIMELINE = RuleTimeline(
    [
        LogEntry.accepted(0, 0, ListChange("longs", ListOperation.SET, ListType.LONG, b"[8, -4, 0]")),
        LogEntry.accepted(1, 1, ListChange("words", ListOperation.SET, ListType.STRING, b'["de", "d"]')),
        LogEntry.accepted(2, 2, ListChange("longs", ListOperation.REMOVE, ListType.LONG, b"[8]")),
    ]
)
ROWS = 4


def passing(text: str, entry_counts: list[int]) -> list[bool]:
    """Which rows pass, if so many entries of the log apply to each."""
    payees = Column(np.array([4, -2, BIG, 4]), np.array([True, True, True, False]), None)
    countries = Column(np.array([0, 1, 0, 0]), np.array([True, True, False, True]), ("DE", "d"))
    places = np.arange(ROWS, dtype=np.int64)
    batch = TransactionBatch(places, places.astype(np.int32), places, {"payeeId": payees, "country": countries})
    tree = parse_filter(text, SCHEMA, RuleLimits(), "when")
    columns = lookup_columns([tree], TIMELINE, batch.columns, np.array(entry_counts, dtype=np.int64))
    return tree.mask({**batch.columns, **columns}, ROWS).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payeeId * 2 in list('longs')", [True, True, False, False]),
        ("payeeId * 2 not in list('longs')", [False, False, True, False]),  # 2**63 is in no list of longs
        ("lower(country) in list('words')", [True, True, False, True]),
        ("substring(country, 1, 1) not in list('words')", [True, False, False, True]),
        ("coalesce(payeeId * 2 in list('longs'), true)", [True, True, False, True]),
        ("coalesce(0, payeeId) in list('longs')", [True, True, True, True]),
        ("payeeId / 0 + payeeId > 1 or round(payeeId / 0) in list('longs')", [False, False, False, False]),
    ],
)
def test_an_expression_is_looked_up_in_a_list(text: str, expected: list[bool]) -> None:
    assert passing(text, [2] * ROWS) == expected


def test_each_row_has_its_version_of_the_list() -> None:
    assert passing("payeeId * 2 in list('longs')", [2, 3, 3, 3]) == [True, True, False, False]
    assert passing("payeeId * 2 in list('longs')", [3, 2, 2, 2]) == [False, True, False, False]
    assert passing("coalesce(0, payeeId) in list('longs')", [0, 2, 3, 3]) == [False, True, True, True]

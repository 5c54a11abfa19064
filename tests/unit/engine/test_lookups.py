"""Expressions read the version of a list or map that applies to each row."""

from __future__ import annotations

import numpy as np
import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.engine.lookups import lookup_columns
from fraud_rules.model.expressions.lookups import lookups_of
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.model.value_list import ListChange, ListOperation, ListType
from fraud_rules.model.value_map import MapChange, MapValueType
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
BIG = 2**62
SET, ADD = ListOperation.SET, ListOperation.ADD
Types = tuple[ListType, MapValueType]
TO_NUMBER: Types = (ListType.LONG, MapValueType.DECIMAL)
TO_TEXT: Types = (ListType.STRING, MapValueType.STRING)


def _entry(version: int, name: str, operation: ListOperation, types: Types, of: bytes) -> LogEntry:
    return LogEntry.accepted(version, version, MapChange(name, operation, *types, of))


TIMELINE = RuleTimeline(
    [
        _entry(0, "limits", SET, TO_NUMBER, b'{"4":"1.5","-2":"-3"}'),
        _entry(1, "regions", SET, TO_TEXT, b'{"de":"low","d":"high"}'),
        _entry(2, "limits", ADD, TO_NUMBER, b'{"4":"2"}'),
        _entry(3, "regions", ADD, TO_TEXT, b'{"de":"embargo"}'),
        LogEntry.accepted(4, 4, ListChange("longs", SET, ListType.LONG, b"[8, -4, 0]")),
        LogEntry.accepted(5, 5, ListChange("words", SET, ListType.STRING, b'["de", "d"]')),
        LogEntry.accepted(6, 6, ListChange("longs", ListOperation.REMOVE, ListType.LONG, b"[8]")),
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
    assert parse_filter(str(tree), SCHEMA, RuleLimits(), "when") == tree
    columns = lookup_columns(lookups_of([tree]), TIMELINE, batch.columns, np.array(entry_counts, dtype=np.int64))
    return tree.mask({**batch.columns, **columns}, ROWS).tolist()


@pytest.mark.parametrize(
    ("text", "entry_count", "expected"),
    [
        ("map('limits', payeeId) = 1.5", 2, [True, False, False, False]),
        ("MAP('limits', payeeId) < 0", 2, [False, True, False, False]),
        ("map('limits', payeeId) is null", 2, [False, False, True, True]),
        ("map('limits', payeeId * 4) is null", 2, [True, True, True, True]),  # 2**64 is no key
        ("map('limits', payeeId) * 2 + 1 = 4", 2, [True, False, False, False]),
        ("coalesce(map('limits', payeeId), 100) >= 100", 2, [False, False, True, True]),
        ("map_text('regions', lower(country)) in ('low', 'high')", 2, [True, True, False, True]),
        ("map_text('regions', lower(country)) = 'high'", 2, [False, True, False, False]),
        ("map_text('regions', country) is null", 2, [True, False, True, True]),
        ("map('limits', length(map_text('regions', lower(country))) + 1) = 1.5", 2, [True, False, False, True]),
        ("map('limits', payeeId) = map('limits', 4)", 2, [True, False, False, False]),
        ("payeeId * 2 in list('longs')", 6, [True, True, False, False]),
        ("payeeId * 2 not in list('longs')", 6, [False, False, True, False]),  # 2**63 is in no list of longs
        ("lower(country) in list('words')", 6, [True, True, False, True]),
        ("substring(country, 1, 1) not in list('words')", 6, [True, False, False, True]),
        ("coalesce(payeeId * 2 in list('longs'), true)", 6, [True, True, False, True]),
        ("coalesce(0, payeeId) in list('longs')", 6, [True, True, True, True]),
        ("payeeId / 0 + payeeId > 1 or round(payeeId / 0) in list('longs')", 6, [False, False, False, False]),
    ],
)
def test_an_expression_is_looked_up_in_a_map_or_a_list(text: str, entry_count: int, expected: list[bool]) -> None:
    assert passing(text, [entry_count] * ROWS) == expected


def test_each_row_has_its_version_of_the_map_or_list() -> None:
    assert passing("map('limits', payeeId) = 2", [2, 3, 3, 3]) == [False, False, False, False]
    assert passing("map('limits', payeeId) = 2", [3, 3, 3, 3]) == [True, False, False, False]
    assert passing("map_text('regions', lower(country)) = 'embargo'", [4, 4, 4, 3]) == [True, False, False, False]
    assert passing("map_text('regions', lower(country)) = 'low'", [4, 1, 2, 3]) == [False, False, False, True]
    assert passing("map('limits', payeeId) is not null", [0, 1, 1, 1]) == [False, True, False, False]
    assert passing("payeeId * 2 in list('longs')", [6, 7, 7, 7]) == [True, True, False, False]
    assert passing("payeeId * 2 in list('longs')", [7, 6, 6, 6]) == [False, True, False, False]
    assert passing("coalesce(0, payeeId) in list('longs')", [0, 6, 7, 7]) == [False, True, True, True]

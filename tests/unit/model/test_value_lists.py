"""Lists of values: the table of longs, and the values of a list after its changes."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.model.tables.long_table import LOWEST, LayeredLongs, LongTable
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

LONGS = st.lists(st.one_of(st.integers(-5, 40), st.integers(LOWEST, 2**63 - 1)), max_size=30)


def _ints(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("kind", [LongTable, LayeredLongs])
@given(changes=st.lists(st.tuples(LONGS, LONGS), max_size=40))
def test_a_table_of_longs_is_a_set(
    kind: type[LongTable | LayeredLongs], changes: list[tuple[list[int], list[int]]]
) -> None:
    table: LongTable | LayeredLongs = kind.of(_ints([]))
    expected = set[int]()
    for added, removed in changes:
        removed = [value for value in removed if value not in added]
        table = table.changed(_ints(added), _ints(removed))
        expected = (expected - set(removed)) | set(added)
        asked = _ints([*range(-8, 43), -(2**63), -(2**63) + 1, *added, *removed])
        assert (table.size, set(table.values().tolist())) == (len(expected), expected)
        assert table.contains(asked).tolist() == [value in expected for value in asked.tolist()]
        assert [value in table for value in asked.tolist()] == [value in expected for value in asked.tolist()]


@pytest.mark.parametrize("asked_at_once", [1, 100, 280_000])
def test_values_are_found_however_many_places_a_search_reads(asked_at_once: int) -> None:
    """40,000 of 65,536 places are used, so some searches read dozens of places."""
    values = np.arange(0, 280_000, 7)
    table = LongTable.of(values)
    asked = np.arange(0, 280_000 if asked_at_once > 1_000 else 2_000)
    found = [table.contains(asked[start : start + asked_at_once]) for start in range(0, len(asked), asked_at_once)]
    assert np.array_equal(np.concatenate(found), asked % 7 == 0)


def test_small_changes_of_a_long_list_share_its_table() -> None:
    """Thousands of changes in a row need little memory, also if every version stays."""
    known = LayeredLongs.of(np.arange(20_000))
    expected, versions = set(range(20_000)), []
    for start in range(0, 6_000, 100):
        added = [*range(start, start + 50), *range(30_000 + start, 30_050 + start)]
        removed = [*range(start + 50, start + 100), *range(30_000 + start - 20, 30_000 + start)]
        known = known.changed(_ints(added), _ints(removed))
        expected = (expected - set(removed)) | set(added)
        versions.append((known, frozenset(expected)))
    for each, values in versions:
        assert (each.size, set(each.values().tolist())) == (len(values), values)
        assert each.contains(np.arange(40_000)).tolist() == [value in values for value in range(40_000)]
    assert len({id(each.main) for each, _ in versions}) <= 4


def test_a_table_of_a_million_longs_needs_at_most_64_mb() -> None:
    assert LongTable.of(np.arange(10**9, 10**9 + 10**6)).nbytes <= 64_000_000


def _change(operation: str, values: list[int | str], of: str = "mules") -> ListChange:
    kind = ListType.STRING if values and isinstance(values[0], str) else ListType.LONG
    return ListChange(of, ListOperation(operation), kind, json.dumps(values).encode())


@pytest.mark.parametrize("text", [False, True])
def test_versions_of_a_list_do_not_affect_each_other(text: bool) -> None:
    rng = random.Random(text)
    kind = ListType.STRING if text else ListType.LONG
    known, expected = ValueList.of("mules", kind, 0, []), set[int | str]()
    versions = []
    for version in range(1, 200):
        numbers = rng.sample(range(3_000), rng.choice([0, 1, 5, 900]))
        values: list[int | str] = [str(number) if text else number for number in numbers]
        operation = rng.choice(["ADD", "ADD", "REMOVE", "SET" if version % 50 == 0 else "ADD"])
        known = known.changed(
            [(version, _change(operation, values) if values else replace(_change(operation, []), type=kind))]
        )
        expected = {"ADD": expected | set(values), "REMOVE": expected - set(values), "SET": set(values)}[operation]
        versions.append((known, frozenset(expected)))
    for known, values_then in versions:
        assert known.size == len(values_then)
        assert set(known.values()) == values_then
        if not text:
            assert set(np.flatnonzero(known.contains_longs(np.arange(3_000))).tolist()) == values_then

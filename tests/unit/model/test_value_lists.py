"""Lists of values: the table of longs, the changes of a list, and the lists at any point of the rule log."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.tables.long_table import LOWEST, LayeredLongs, LongTable
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ListType, ValueList
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

SCHEMA = load_schema("default")
LIMITS = RuleLimits(max_list_values=10, max_lists=3)
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


def _log(*records: dict[str, object], limits: RuleLimits = LIMITS) -> list[LogEntry]:
    return [read_entry(i, i, json.dumps(record).encode(), SCHEMA, limits) for i, record in enumerate(records)]


def _record(operation: str, values: list[int] | list[str] | None = None, **members: object) -> dict[str, object]:
    given = {} if values is None else {"values": values}
    return {"listName": "mules", "listOperation": operation, **given, **members}


def _rejected(timeline: RuleTimeline) -> dict[int, list[str]]:
    return {each.version: [str(reason) for reason in each.reasons] for each in timeline.entries if each.change is None}


def test_the_log_before_a_record_decides_whether_it_fits() -> None:
    timeline = RuleTimeline(
        _log(
            _record("ADD", [1]),
            _record("SET", [1, 2], listType="long"),
            _record("ADD", ["a"], listType="string"),
            _record("REMOVE", ["a"]),
            _record("ADD", list(range(3, 11))),
            _record("ADD", [1, 2, 11]),
            _record("ADD", [1, 2]),
            _record("SET", ["a"], listType="string"),
            _record("DELETE"),
            _record("DELETE"),
        )
    )
    assert _rejected(timeline) == {
        0: ["listName: there is no list 'mules'"],
        2: ["listType: is string; the list has long values"],
        3: ["listType: is string; the list has long values"],
        5: ["values: the list would have 11 values, at most 10 are allowed"],
        9: ["listName: there is no list 'mules'"],
    }
    lists = [timeline.collections_at(count).lists for count in range(11)]
    found = [at.get("mules") and (at["mules"].version, at["mules"].size) for at in lists]
    assert found == [None, None, (1, 2), (1, 2), (1, 2), (4, 10), (4, 10), (6, 10), (7, 1), None, None]


def test_the_number_of_lists_is_bounded() -> None:
    sets = [_record("SET", [1], listType="long", listName=name) for name in ("a", "b", "c", "d", "a")]
    assert list(_rejected(RuleTimeline(_log(*sets)))) == [3]


def test_a_control_leaves_lists_as_they_are() -> None:
    controls = [{"ruleState": "CONTROL", "controlType": each} for each in ("DELETE_RULES_ALL", "CLEAR_STATE_ALL")]
    assert list(RuleTimeline(_log(_record("SET", [1], listType="long"), *controls)).lists) == ["mules"]


def test_lists_do_not_depend_on_how_the_log_was_read() -> None:
    rng = random.Random(3)
    names, records = ["a", "b"], []
    for _ in range(300):
        operation = rng.choice(["SET", "ADD", "ADD", "ADD", "REMOVE", "REMOVE", "DELETE"])
        values = None if operation == "DELETE" else [rng.randint(1, 20) for _ in range(rng.randint(0, 4))]
        kind = {"listType": "long"} if operation == "SET" else {}
        records.append(_record(operation, values, **kind, listName=rng.choice(names)))
    log = _log(*records, limits=RuleLimits())
    whole, extended, at = RuleTimeline(log), RuleTimeline(), 0
    while at < len(log):
        step = rng.randint(1, 9)
        extended, at = extended.extended(log[at : at + step]), at + step
    points = [*range(301), *rng.sample(range(301), 301)]
    for count in points:
        one, other = whole.collections_at(count).lists, extended.collections_at(count).lists
        assert {name: (each.version, each.values()) for name, each in one.items()} == {
            name: (each.version, each.values()) for name, each in other.items()
        }
    assert _rejected(whole) == _rejected(extended)


def test_changes_of_lists_cause_no_further_rule_sets() -> None:
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": [], "aggregatorFunctionType": "COUNT"}
    rule |= {"limitOperatorType": ">", "limit": 0, "windowMinutes": 1}
    changes = [_record("SET", [1], listType="long"), *[_record("ADD", [2])] * 3]
    timeline = RuleTimeline(_log(rule, *changes, rule, *changes))
    assert timeline.rule_counts(np.arange(11)).tolist()[:10] == [0, 1, 1, 1, 1, 1, 6, 6, 6, 6]


RULE = count_rule(ruleState="PAUSE", groupingKeyNames=[], limit=0, windowMinutes=1, when="payeeId in list('mules')")


@pytest.mark.parametrize("lazily", [False, True])
def test_a_list_in_use_stays_as_it_is(lazily: bool) -> None:
    long, text = _record("SET", [1], listType="long"), _record("SET", ["a"], listType="string")
    delete, again = _record("DELETE"), {**RULE, "when": "payeeId IN LIST ('mules')"}
    no_lists = {name: value for name, value in RULE.items() if name != "when"}
    records = [RULE, text, RULE, long, RULE, text, delete, {**again, "ruleId": 2}, no_lists, delete]
    records += [{"ruleId": 2, "ruleState": "DELETE"}, delete, RULE, long, RULE, DELETE_ALL, delete]
    log = _log(*records)
    if lazily:
        reader = EntryReader(SCHEMA, LIMITS)
        log = [reader.read(i, i, json.dumps(record).encode()) for i, record in enumerate(records)]
    timeline = RuleTimeline(log)
    in_use = "listOperation: cannot delete the list: "
    assert _rejected(timeline) == {
        0: ["when: there is no list 'mules'"],
        2: ["when: the list 'mules' has string values; the field is a long"],
        5: ["listType: cannot change from long to string: rule 1 uses it"],
        6: [in_use + "rule 1 uses it"],
        9: [in_use + "rule 2 uses it"],
        12: ["when: there is no list 'mules'"],
    }
    assert (timeline.rules_naming(CollectionKind.LIST), dict(timeline.lists)) == ({}, {})


DELETE_ALL: dict[str, object] = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}

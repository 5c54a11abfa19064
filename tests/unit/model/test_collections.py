"""Lists and maps in the rule log: the log before a record decides whether it fits, however the log is read."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.value_list import CollectionKind
from fraud_rules.model.value_map import entry_text
from tests.support.rules import SCHEMA, count_rule

LIMITS = RuleLimits(max_list_values=10, max_lists=3, max_map_entries=10, max_maps=3)
Record = dict[str, Any]


def _list(operation: str, values: list[int] | list[str] | None = None, **members: object) -> Record:
    given = {} if values is None else {"values": values}
    return {"listName": "mules", "listOperation": operation, **given, **members}


def _map(operation: str, entries: object = None, keys: object = None, **members: object) -> Record:
    given = {"entries": entries, "keys": keys}
    present = {name: value for name, value in given.items() if value is not None}
    return {"mapName": "limits", "mapOperation": operation, **present, **members}


def _set(entries: object, key: str = "long", value: str = "decimal", **members: object) -> Record:
    return _map("SET", entries, keyType=key, valueType=value, **members)


def _log(*records: Record, limits: RuleLimits = LIMITS) -> list[LogEntry]:
    return [read_entry(i, i, json.dumps(record).encode(), SCHEMA, limits) for i, record in enumerate(records)]


def _rejected(timeline: RuleTimeline) -> dict[int, list[str]]:
    return {each.version: [str(reason) for reason in each.reasons] for each in timeline.entries if each.change is None}


def test_the_log_before_a_record_of_a_list_decides_whether_it_fits() -> None:
    timeline = RuleTimeline(
        _log(
            _list("ADD", [1]),
            _list("SET", [1, 2], listType="long"),
            _list("ADD", ["a"], listType="string"),
            _list("REMOVE", ["a"]),
            _list("ADD", list(range(3, 11))),
            _list("ADD", [1, 2, 11]),
            _list("ADD", [1, 2]),
            _list("SET", ["a"], listType="string"),
            _list("DELETE"),
            _list("DELETE"),
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


def test_the_log_before_a_record_of_a_map_decides_whether_it_fits() -> None:
    timeline = RuleTimeline(
        _log(
            _map("ADD", {"1": "1"}),
            _set({"1": "20", "2": 5.5}),
            _map("ADD", {"a": "1"}),
            _map("ADD", {"3": "much"}),
            _map("ADD", {"1": 30, "3": "0.000001"}),
            _map("REMOVE", keys=["1", 7]),
            _map("REMOVE", keys=["x"]),
            _map("ADD", {str(i): "1" for i in range(4, 13)}),
            _set({"a": "b"}, "string", "string"),
            _map("ADD", {"7": "9"}),
            _map("DELETE"),
            _map("DELETE"),
        )
    )
    assert _rejected(timeline) == {
        0: ["mapName: there is no map 'limits'"],
        2: ["keyType: is string; the map has long keys"],
        3: ["valueType: is string; the map has decimal values"],
        6: ["keyType: is string; the map has long keys"],
        7: ["entries: the map would have 11 entries, at most 10 are allowed"],
        11: ["mapName: there is no map 'limits'"],
    }
    maps = [timeline.collections_at(count).maps.get("limits") for count in range(13)]
    found = [
        None if each is None else (each.version, {key: entry_text(value) for key, value in each.entries().items()})
        for each in maps
    ]
    assert found == [
        None, None, *[(1, {1: "20", 2: "5.5"})] * 3, (4, {1: "30", 2: "5.5", 3: "0.000001"}),
        *[(5, {2: "5.5", 3: "0.000001"})] * 3, (8, {"a": "b"}), (9, {"7": "9", "a": "b"}), None, None,
    ]  # fmt: skip


def test_the_numbers_of_lists_and_of_maps_are_bounded_apart() -> None:
    names = ("a", "b", "c", "d", "a")
    maps = [_set({}, mapName=name) for name in names]
    lists = [_list("SET", [1], listType="long", listName=name) for name in names]
    timeline = RuleTimeline(_log(*maps, *lists))
    assert _rejected(timeline) == {
        3: ["mapName: there are 3 maps, the highest number allowed"],
        8: ["listName: there are 3 lists, the highest number allowed"],
    }
    assert (list(timeline.maps), list(timeline.lists)) == (["a", "b", "c"], ["a", "b", "c"])


def test_all_maps_together_have_a_bounded_number_of_bytes() -> None:
    """A number has 8 bytes, a text those of its UTF-8."""
    limits = RuleLimits(max_map_bytes=60)
    log = _log(
        _set({"1": "1", "2": "2"}),
        _set({"a": "é" * 10, "b": ""}, "string", "string", mapName="texts"),
        _map("ADD", {"1": "5"}),
        _map("ADD", {"3": "3"}),
        _map("ADD", {"c": "123456"}, mapName="texts"),
        _map("REMOVE", keys=["a"], mapName="texts"),
        _map("ADD", {"3": "3"}),
        _set({str(i): "1" for i in range(4)}),
        _set({str(i): "1" for i in range(3)}),
        limits=limits,
    )
    assert _rejected(RuleTimeline(log)) == {
        3: ["entries: all maps would have 70 bytes, at most 60 are allowed"],
        4: ["entries: all maps would have 61 bytes, at most 60 are allowed"],
        7: ["entries: all maps would have 65 bytes, at most 60 are allowed"],
    }


def test_changes_of_lists_cause_no_further_rule_sets() -> None:
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": [], "aggregatorFunctionType": "COUNT"}
    rule |= {"limitOperatorType": ">", "limit": 0, "windowMinutes": 1}
    changes = [_list("SET", [1], listType="long"), *[_list("ADD", [2])] * 3]
    timeline = RuleTimeline(_log(rule, *changes, rule, *changes))
    assert timeline.rule_counts(np.arange(11)).tolist()[:10] == [0, 1, 1, 1, 1, 1, 6, 6, 6, 6]


def _rule(rule_id: int = 1, **members: object) -> Record:
    return count_rule(rule_id, ruleState="PAUSE", groupingKeyNames=[], limit=0, windowMinutes=1, **members)


BY_LIST, BY_MAP = _rule(when="payeeId in list('mules')"), _rule(when="map('limits', payeeId) > 5")
LONGS, TEXTS = _list("SET", [1], listType="long"), _list("SET", ["a"], listType="string")
DELETE_ALL: Record = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}
LIST_IN_USE = (
    [
        BY_LIST, TEXTS, BY_LIST, LONGS, BY_LIST, TEXTS, _list("DELETE"), _rule(2, when="payeeId IN LIST ('mules')"),
        _rule(), _list("DELETE"), {"ruleId": 2, "ruleState": "DELETE"}, _list("DELETE"), BY_LIST, LONGS, BY_LIST,
        DELETE_ALL, _list("DELETE"),
    ],
    {
        0: ["when: there is no list 'mules'"],
        2: ["when: the list 'mules' has string values; the field is a long"],
        5: ["listType: cannot change from long to string: rule 1 uses it"],
        6: ["listOperation: cannot delete the list: rule 1 uses it"],
        9: ["listOperation: cannot delete the list: rule 2 uses it"],
        12: ["when: there is no list 'mules'"],
    },
    [],
)  # fmt: skip
MAP_IN_USE = (
    [
        BY_MAP, _set({"a": "1"}, "string"), BY_MAP, _set({}), _rule(when="map_text('limits', payeeId) = 'x'"), BY_MAP,
        _set({}, value="string"), _map("DELETE"), {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"},
        {"ruleId": 1, "ruleState": "DELETE"}, _map("DELETE"), _set({}), BY_MAP, DELETE_ALL,
    ],
    {
        0: ["when: there is no map 'limits'"],
        2: ["when: the map 'limits' is string to decimal; the rule needs long to decimal"],
        4: ["when: the map 'limits' is long to decimal; the rule needs long to string"],
        6: ["valueType: cannot change from long to decimal to long to string: rule 1 uses it"],
        7: ["mapOperation: cannot delete the map: rule 1 uses it"],
    },
    ["limits"],
)  # fmt: skip


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize(("records", "rejected", "left"), [LIST_IN_USE, MAP_IN_USE], ids=["a list", "a map"])
def test_a_list_or_map_in_use_stays_as_it_is(
    records: list[Record], rejected: dict[int, list[str]], left: list[str], lazily: bool
) -> None:
    log = _log(*records)
    if lazily:
        reader = EntryReader(SCHEMA, LIMITS)
        log = [reader.read(i, i, json.dumps(record).encode()) for i, record in enumerate(records)]
    timeline = RuleTimeline(log)
    assert _rejected(timeline) == rejected
    assert all(timeline.rules_naming(kind) == {} for kind in CollectionKind)
    assert [*timeline.lists, *timeline.maps] == left


def _random_record(rng: random.Random) -> Record:
    """A change of one of two lists or of one of two maps."""
    operation, name = rng.choice(["SET", "ADD", "ADD", "ADD", "REMOVE", "REMOVE", "DELETE"]), rng.choice("ab")
    keys = [rng.randint(1, 20) for _ in range(rng.randint(0, 4))]
    if rng.random() < 0.5:
        kind = {"listType": "long"} if operation == "SET" else {}
        return _list(operation, None if operation == "DELETE" else keys, **kind, listName=name)
    entries = {str(each): str(rng.randint(0, 9)) for each in keys}
    if operation == "SET":
        return _set(entries, mapName=name)
    members = {"ADD": {"entries": entries}, "REMOVE": {"keys": list(entries)}, "DELETE": {}}[operation]
    return _map(operation, **members, mapName=name)


def test_lists_and_maps_do_not_depend_on_how_the_log_was_read() -> None:
    rng = random.Random(3)
    log = _log(*(_random_record(rng) for _ in range(600)), limits=RuleLimits())
    whole, extended, at = RuleTimeline(log), RuleTimeline(), 0
    while at < len(log):
        step = rng.randint(1, 9)
        extended, at = extended.extended(log[at : at + step]), at + step

    def content(timeline: RuleTimeline, count: int) -> list[tuple[str, int, object]]:
        found = timeline.collections_at(count)
        lists = [(name, each.version, each.values()) for name, each in found.lists.items()]
        return [*lists, *((name, each.version, each.entries()) for name, each in found.maps.items())]

    for count in [*range(601), *rng.sample(range(601), 601)]:
        assert content(whole, count) == content(extended, count)
    assert _rejected(whole) == _rejected(extended)

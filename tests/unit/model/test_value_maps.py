"""Maps of values: the changes of a map, and the maps at any point of the rule log."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.rules.collections.maps import read_map_change
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.model import value_map
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.tables import entry_table
from fraud_rules.model.value_list import CollectionKind
from fraud_rules.model.value_map import MapChange, ValueMap, entry_text
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

SCHEMA = load_schema("default")
LIMITS = RuleLimits(max_map_entries=10, max_maps=3)


def _record(operation: str, entries: object = None, keys: object = None, **members: object) -> dict[str, object]:
    given = {"entries": entries, "keys": keys}
    present = {name: value for name, value in given.items() if value is not None}
    return {"mapName": "limits", "mapOperation": operation, **present, **members}


def _set(entries: object, key: str = "long", value: str = "decimal", **members: object) -> dict[str, object]:
    return _record("SET", entries, keyType=key, valueType=value, **members)


def _log(*records: dict[str, object], limits: RuleLimits = LIMITS) -> list[LogEntry]:
    return [read_entry(i, i, json.dumps(record).encode(), SCHEMA, limits) for i, record in enumerate(records)]


def _rejected(timeline: RuleTimeline) -> dict[int, list[str]]:
    return {each.version: [str(reason) for reason in each.reasons] for each in timeline.entries if each.change is None}


def _change(record: dict[str, object]) -> MapChange:
    return read_map_change(json.dumps(record).encode(), RuleLimits())


@pytest.mark.parametrize("key", ["long", "string"])
@pytest.mark.parametrize("value", ["decimal", "string"])
@pytest.mark.parametrize("same_hash", [False, True])
def test_a_map_has_the_entries_of_its_changes(
    key: str, value: str, same_hash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions stay as they were, in the base and in the delta, also where hashes of texts collide."""
    monkeypatch.setattr(value_map, "_MAX_DELTA", 300)
    monkeypatch.setattr(entry_table, "_FEW_TEXTS", 50)
    if same_hash:
        monkeypatch.setattr(
            entry_table, "_hashes", lambda texts: np.array([len(each) for each in texts], dtype=np.int64)
        )
    rng = random.Random(1)
    expected: dict[str, str] = {}
    versions = []
    known: ValueMap | None = None
    for version in range(120):
        keys = [str(number) for number in rng.sample(range(400), rng.choice([1, 5, 100, 350]))]
        entries = {each: str(rng.randint(-5, 9)) + rng.choice(["", ".5", ".000001"]) for each in keys}
        operation = "SET" if known is None or version == 60 else rng.choice(["ADD", "ADD", "REMOVE"])
        if operation == "REMOVE":
            change = _change(_record(operation, keys=keys))
            expected = {each: text for each, text in expected.items() if each not in entries}
        else:
            change = _change(_record(operation, entries, keyType=key, valueType=value))
            expected = entries if operation == "SET" else {**expected, **entries}
        if known is None:
            assert change.type is not None
            known = change.begin(change.type, version)
        else:
            known = known.changed([(version, change)])
        versions.append((known, expected))
    asked: Any = [str(number) for number in range(450)] if key == "string" else np.arange(450)
    for known, entries in versions:
        shown = {str(each): entry_text(found) for each, found in known.entries().items()}
        assert (known.size, shown) == (len(entries), {each: _shown(text, value) for each, text in entries.items()})
        found, is_there, texts = known.find(asked)
        values = [entry_text(word if texts is None else texts[word]) for word in found.tolist()]
        looked_up = {str(each): text for each, text, there in zip(asked, values, is_there, strict=True) if there}
        assert looked_up == shown
        number_bytes = 8 * ((key == "long") + (value == "decimal")) * len(shown)
        texts_of = [*(shown if key == "string" else ()), *(shown.values() if value == "string" else ())]
        assert known.entry_bytes == number_bytes + sum(map(len, texts_of))


def _shown(text: str, value: str) -> str:
    """The text of a value, as the map has it."""
    return "0" if value == "decimal" and text == "-0" else text


def _texts(known: ValueMap) -> dict[int | str, str]:
    return {key: entry_text(value) for key, value in known.entries().items()}


@pytest.mark.parametrize("keys", [[""], ["", "a"], ["é", "a", "", "日本", "ab"], ["x" * 256]])
def test_any_texts_are_keys_and_values(keys: list[str]) -> None:
    change = _change(_set({key: key[:9] + "!" for key in keys}, "string", "string"))
    assert change.type is not None
    known = change.begin(change.type, 0)
    for asked in (keys, [*keys, "", "b", "ä", "abc"], ["zz"], [""]):
        found, is_there, texts = known.find(asked)
        assert texts is not None
        assert is_there.tolist() == [key in keys for key in asked]
        values = [texts[word] for word, there in zip(found.tolist(), is_there, strict=True) if there]
        assert values == [key[:9] + "!" for key in asked if key in keys]


def test_the_log_before_a_record_decides_whether_it_fits() -> None:
    timeline = RuleTimeline(
        _log(
            _record("ADD", {"1": "1"}),
            _set({"1": "20", "2": 5.5}),
            _record("ADD", {"a": "1"}),
            _record("ADD", {"3": "much"}),
            _record("ADD", {"1": 30, "3": "0.000001"}),
            _record("REMOVE", keys=["1", 7]),
            _record("REMOVE", keys=["x"]),
            _record("ADD", {str(i): "1" for i in range(4, 13)}),
            _set({"a": "b"}, "string", "string"),
            _record("ADD", {"7": "9"}),
            _record("DELETE"),
            _record("DELETE"),
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
    found = [None if each is None else (each.version, _texts(each)) for each in maps]
    assert found == [
        None, None, *[(1, {1: "20", 2: "5.5"})] * 3, (4, {1: "30", 2: "5.5", 3: "0.000001"}),
        *[(5, {2: "5.5", 3: "0.000001"})] * 3, (8, {"a": "b"}), (9, {"7": "9", "a": "b"}), None, None,
    ]  # fmt: skip


def test_the_number_of_maps_is_bounded_apart_from_that_of_lists() -> None:
    sets = [_set({}, mapName=name) for name in ("a", "b", "c", "d", "a")]
    lists = [{"listName": "a", "listOperation": "SET", "listType": "long", "values": []}]
    timeline = RuleTimeline(_log(*sets, *lists))
    assert _rejected(timeline) == {3: ["mapName: there are 3 maps, the highest number allowed"]}
    assert (list(timeline.maps), list(timeline.lists)) == (["a", "b", "c"], ["a"])


def test_all_maps_together_have_a_bounded_number_of_bytes() -> None:
    """A number has 8 bytes, a text those of its UTF-8."""
    limits = RuleLimits(max_map_bytes=60)
    log = _log(
        _set({"1": "1", "2": "2"}),
        _set({"a": "é" * 10, "b": ""}, "string", "string", mapName="texts"),
        _record("ADD", {"1": "5"}),
        _record("ADD", {"3": "3"}),
        _record("ADD", {"c": "123456"}, mapName="texts"),
        _record("REMOVE", keys=["a"], mapName="texts"),
        _record("ADD", {"3": "3"}),
        _set({str(i): "1" for i in range(4)}),
        _set({str(i): "1" for i in range(3)}),
        limits=limits,
    )
    assert _rejected(RuleTimeline(log)) == {
        3: ["entries: all maps would have 70 bytes, at most 60 are allowed"],
        4: ["entries: all maps would have 61 bytes, at most 60 are allowed"],
        7: ["entries: all maps would have 65 bytes, at most 60 are allowed"],
    }


RULE = count_rule(ruleState="PAUSE", groupingKeyNames=[], limit=0, windowMinutes=1, when="map('limits', payeeId) > 5")


@pytest.mark.parametrize("lazily", [False, True])
def test_a_map_in_use_stays_as_it_is(lazily: bool) -> None:
    texts = {**RULE, "when": "map_text('limits', payeeId) = 'x'"}
    records: list[dict[str, object]] = [
        RULE, _set({"a": "1"}, "string"), RULE, _set({}), texts, RULE, _set({}, value="string"), _record("DELETE"),
        {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}, {"ruleId": 1, "ruleState": "DELETE"},
        _record("DELETE"), _set({}), RULE, {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"},
    ]  # fmt: skip
    log = _log(*records)
    if lazily:
        reader = EntryReader(SCHEMA, LIMITS)
        log = [reader.read(i, i, json.dumps(record).encode()) for i, record in enumerate(records)]
    timeline = RuleTimeline(log)
    assert _rejected(timeline) == {
        0: ["when: there is no map 'limits'"],
        2: ["when: the map 'limits' is string to decimal; the rule needs long to decimal"],
        4: ["when: the map 'limits' is long to decimal; the rule needs long to string"],
        6: ["valueType: cannot change from long to decimal to long to string: rule 1 uses it"],
        7: ["mapOperation: cannot delete the map: rule 1 uses it"],
    }
    assert (timeline.rules_naming(CollectionKind.MAP), list(timeline.maps)) == ({}, ["limits"])


def test_maps_do_not_depend_on_how_the_log_was_read() -> None:
    rng = random.Random(3)
    records = []
    for _ in range(300):
        operation = rng.choice(["SET", "ADD", "ADD", "ADD", "REMOVE", "REMOVE", "DELETE"])
        keys = [str(rng.randint(1, 20)) for _ in range(rng.randint(0, 4))]
        entries = {each: str(rng.randint(0, 9)) for each in keys}
        name = rng.choice("ab")
        records.append(
            {"SET": _set(entries, mapName=name), "ADD": _record("ADD", entries, mapName=name),
             "REMOVE": _record("REMOVE", keys=keys, mapName=name), "DELETE": _record("DELETE", mapName=name)}[operation]
        )  # fmt: skip
    log = _log(*records, limits=RuleLimits())
    whole, extended, at = RuleTimeline(log), RuleTimeline(), 0
    while at < len(log):
        step = rng.randint(1, 9)
        extended, at = extended.extended(log[at : at + step]), at + step
    for count in rng.sample(range(301), 301):
        one, other = whole.collections_at(count).maps, extended.collections_at(count).maps
        assert {name: (each.version, each.entries()) for name, each in one.items()} == {
            name: (each.version, each.entries()) for name, each in other.items()
        }
    assert _rejected(whole) == _rejected(extended)

"""Maps of values: the entries of a map after its changes."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from fraud_rules.codec.rules.collections.maps import read_map_change
from fraud_rules.model import value_map
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.tables import entry_table
from fraud_rules.model.value_map import MapChange, ValueMap, entry_text


def _change(operation: str, **members: object) -> MapChange:
    record = {"mapName": "limits", "mapOperation": operation, **members}
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
            change = _change(operation, keys=keys)
            expected = {each: text for each, text in expected.items() if each not in entries}
        else:
            change = _change(operation, entries=entries, keyType=key, valueType=value)
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


@pytest.mark.parametrize("keys", [[""], ["", "a"], ["é", "a", "", "日本", "ab"], ["x" * 256]])
def test_any_texts_are_keys_and_values(keys: list[str]) -> None:
    change = _change("SET", entries={key: key[:9] + "!" for key in keys}, keyType="string", valueType="string")
    assert change.type is not None
    known = change.begin(change.type, 0)
    for asked in (keys, [*keys, "", "b", "ä", "abc"], ["zz"], [""]):
        found, is_there, texts = known.find(asked)
        assert texts is not None
        assert is_there.tolist() == [key in keys for key in asked]
        values = [texts[word] for word, there in zip(found.tolist(), is_there, strict=True) if there]
        assert values == [key[:9] + "!" for key in asked if key in keys]

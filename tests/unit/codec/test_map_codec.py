"""Map records: what is accepted, and every reason for a rejection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.codec.rules.collections.maps import encode_map_records
from fraud_rules.errors import RuleRejected
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.model.value_map import MapChange, MapType, MapValueType
from tests.support.rules import LIMITS, SCHEMA

SET = {
    "mapName": "limits", "mapOperation": "SET", "keyType": "long", "valueType": "decimal", "entries": {"7": "250.00"},
}  # fmt: skip
TEXTS = {**SET, "keyType": "string", "valueType": "string"}
ADD = {"mapName": "limits", "mapOperation": "ADD"}
REMOVE = {"mapName": "limits", "mapOperation": "REMOVE"}
LONGS = MapType(ListType.LONG, MapValueType.DECIMAL)
STRINGS = MapType(ListType.STRING, MapValueType.STRING)


def _read(record: object) -> MapChange:
    change = parse_rule_record(json.dumps(record).encode(), SCHEMA, LIMITS)
    assert isinstance(change, MapChange)
    return change


def _reasons(record: object | bytes) -> list[str]:
    value = record if isinstance(record, bytes) else json.dumps(record).encode()
    with pytest.raises(RuleRejected) as rejected:
        parse_rule_record(value, SCHEMA, LIMITS)
    return [str(reason) for reason in rejected.value.reasons]


@pytest.mark.parametrize(
    ("record", "shown", "updates"),
    [
        (SET, LONGS, {7: 250_000_000}),
        ({**SET, "entries": {}}, LONGS, {}),
        ({**SET, "entries": {"-7": "-0.5", "0": "0", "7": "1e3", "8": 2.5}}, LONGS,
         {-7: -500_000, 0: 0, 7: 10**9, 8: 2_500_000}),
        ({**SET, "entries": {"1": "999999999999.999999", "2": "1.0000000"}}, LONGS, {1: 10**18 - 1, 2: 10**6}),
        ({**TEXTS, "entries": {"é,": 'q"\\', "": "1"}}, STRINGS, {"é,": 'q"\\', "": "1"}),
        ({**ADD, "entries": {"1": "x"}}, (None, "string"), None),
        ({**ADD, "entries": {"a": "1"}}, ("string", None), None),
        ({**ADD, "entries": {"1": 1}}, (None, "decimal"), None),
        ({**REMOVE, "keys": ["1", 2]}, ("long", None), {1: None, 2: None}),
        ({**REMOVE, "keys": ["1"], "source": "ui"}, (None, None), {1: None}),
        ({**REMOVE, "keys": []}, (None, None), {}),
        ({"mapName": "limits", "mapOperation": "DELETE"}, (None, None), None),
    ],
)  # fmt: skip
def test_a_valid_record_is_a_change(record: dict[str, Any], shown: Any, updates: object) -> None:
    change = _read(record)
    assert (change.name, change.operation) == (record["mapName"], record["mapOperation"])
    assert (change.key_type, change.value_type, change.source) == (*shown, record.get("source"))
    if updates is not None:
        assert change.updates(STRINGS if shown == STRINGS else LONGS) == updates


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({**SET, "mapName": "Limits"}, "mapName: is 'Limits'; a map's name has the form"),
        ({**SET, "mapOperation": "PUT"}, "mapOperation: must be one of SET, ADD, REMOVE, DELETE"),
        ({**SET, "keyType": "decimal"}, "keyType: must be one of long, string"),
        ({**SET, "keyType": None}, "keyType: is required with SET"),
        ({**SET, "valueType": None}, "valueType: is required with SET"),
        ({**SET, "entries": None}, "entries: is required with SET"),
        ({**SET, "entries": ["7"]}, "entries: must be an object"),
        ({**SET, "keys": ["7"]}, "keys: is for REMOVE only"),
        ({**SET, "entries": {"x": "1"}}, "entries: key 1 must be a whole number"),
        ({**SET, "entries": {str(2**63): "1"}}, "entries: key 1 must be a whole number"),
        ({**SET, "entries": {"07": "2"}}, "entries: key 1 must be a whole number"),
        ({**SET, "entries": {"1,2": "1"}}, "entries: key 1 must be a whole number"),
        ({**SET, "entries": {"": "1"}}, "entries: key 1 must be a whole number"),
        ({**SET, "entries": {"1": "1,2"}}, "entries: the value of '1' must be a number"),
        ({**ADD, "entries": {"1": 1, "2": "x"}}, "entries: the value of '2' must be a number"),
        ({**REMOVE, "keys": [1, "x"]}, "keys: key 2 must be a whole number"),
        ({**SET, "entries": {"1": "1.1234567"}}, "entries: the value of '1' must be a number with at most 12 digits"),
        ({**SET, "entries": {"1": "1000000000000"}}, "entries: the value of '1' must be a number"),
        ({**SET, "entries": {"1": True}}, "entries: the value of '1' must be a number"),
        ({**SET, "entries": {"1": None}}, "entries: the value of '1' must be a number"),
        ({**SET, "entries": {"1": {}}}, "entries: the value of '1' must be a number"),
        ({**TEXTS, "entries": {"1": 1}}, "entries: the value of '1' must be text"),
        ({**TEXTS, "entries": {"a" * 257: "1"}}, "entries: key 1 has 257 characters"),
        ({**REMOVE, "entries": {"1": 1}}, "keys: is required with REMOVE"),
        ({**REMOVE, "keys": "1"}, "keys: must be a list"),
        ({**REMOVE, "keys": [1.5]}, "keys: key 1 must be text"),
        ({**REMOVE, "keys": ["x"], "keyType": "long"}, "keys: key 1 must be a whole number"),
        ({**SET, "values": [1]}, "values: is not a member of a map record"),
        ({**SET, "source": "A B"}, "source: must be a short lower-case word"),
        (json.dumps(SET).encode().replace(b'"7": "250.00"', b'"7": "1", "7": "2"'), "7: is given twice"),
        (json.dumps(SET).encode().replace(b'"250.00"', b"NaN"), "the value of '7' is NaN"),
        (json.dumps(SET).encode() + b"}", "record: is not JSON"),
    ],
)  # fmt: skip
def test_a_faulty_record_is_rejected_with_the_member(record: object, says: str) -> None:
    assert any(says in reason for reason in _reasons(record)), _reasons(record)


def test_the_rejection_names_the_map() -> None:
    with pytest.raises(RuleRejected) as rejected:
        parse_rule_record(json.dumps({**SET, "entries": 1}).encode(), SCHEMA, LIMITS)
    assert (rejected.value.map_name, rejected.value.list_name) == ("limits", None)


@pytest.mark.parametrize("map_type", [LONGS, STRINGS])
def test_a_long_change_becomes_several_records(map_type: MapType) -> None:
    is_long = map_type is LONGS
    entries: dict[int | str, int | str | None] = {
        (i if is_long else f"k{i}"): (i * 10**5 if is_long else f"v{i}") for i in range(9_000)
    }
    records = encode_map_records("limits", ListOperation.SET, map_type, entries, "cli", 20_000)
    changes = [_read(json.loads(record)) for record in records]
    assert max(map(len, records)) <= 20_000
    assert [each.operation for each in changes] == ["SET", *["ADD"] * (len(changes) - 1)]
    assert len(changes) > 5
    found: dict[int | str, int | str | None] = {}
    for each in changes:
        found.update(each.updates(map_type))
    assert found == entries
    removed = encode_map_records("limits", ListOperation.REMOVE, map_type, entries, "cli", 20_000)
    assert [key for record in removed for key in _read(json.loads(record)).updates(map_type)] == list(entries)

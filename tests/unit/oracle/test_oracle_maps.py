"""The oracle's maps: which records it accepts, and the maps after them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.support.conformance import load_schema
from tests.support.oracle.rules.log import fold, read_rule_log
from tests.support.rules import count_rule

SCHEMA = load_schema("third_edition")
LIMITS = {
    "mapName": "limits",
    "mapOperation": "SET",
    "keyType": "long",
    "valueType": "decimal",
    "entries": {"1": "2.50", "-7": 3},
}
TEXTS = {**LIMITS, "mapName": "texts", "keyType": "string", "valueType": "string", "entries": {"a": "b"}}


def _maps(*records: dict[str, Any]) -> tuple[list[int], dict[str, tuple[int, dict[Any, Any]]]]:
    """The versions that are refused, and version and entries of each map after the records."""
    log = read_rule_log({"steps": [{"at": 1_700_000_000_000, "rule": record} for record in records]}, SCHEMA)
    maps = {name: (known.version, dict(known.entries)) for name, known in fold(log).maps.items()}
    return [entry.version for entry in log if entry.change is None], maps


def test_maps_change_by_their_records() -> None:
    add = {"mapName": "limits", "mapOperation": "ADD", "entries": {"1": "0", "2": 1}}
    remove = {"mapName": "limits", "mapOperation": "REMOVE", "keys": ["-7", 9]}
    wiped = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}
    cleared = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}
    kept = {1: Fraction(0), 2: Fraction(1)}
    assert _maps(LIMITS, add, remove, wiped, cleared) == ([], {"limits": (2, kept)})
    assert _maps(LIMITS, {"mapName": "limits", "mapOperation": "DELETE"}) == ([], {})
    assert _maps(LIMITS, {**TEXTS, "mapName": "limits"}) == ([], {"limits": (1, {"a": "b"})})


@pytest.mark.parametrize(
    "change",
    [
        {"mapName": "Limits"},
        {"mapName": "x" * 64},
        {"mapOperation": "PUT"},
        {"keyType": "decimal"},
        {"valueType": "long"},
        {"keyType": None},
        {"entries": None},
        {"entries": [1]},
        {"entries": {"01": 1}},
        {"entries": {"1.0": 1}},
        {"entries": {str(2**63): 1}},
        {"entries": {"1": True}},
        {"entries": {"1": None}},
        {"entries": {"1": "x"}},
        {"entries": {"1": "1.0000001"}},
        {"entries": {"1": 10**12}},
        {"keys": [1]},
        {"name": "limits"},
        {"mapOperation": "DELETE"},
        {"mapOperation": "REMOVE"},
    ],
)
def test_a_record_that_is_no_map_is_refused(change: dict[str, Any]) -> None:
    assert _maps({**LIMITS, **change}) == ([0], {})


def test_a_change_fits_the_map() -> None:
    for wrong in (
        {"mapName": "texts", "mapOperation": "ADD", "entries": {"a": 1}},
        {"mapName": "texts", "mapOperation": "ADD", "keyType": "long", "entries": {}},
        {"mapName": "texts", "mapOperation": "ADD", "valueType": "decimal", "entries": {}},
        {"mapName": "texts", "mapOperation": "REMOVE", "keys": [1]},
        {"mapName": "other", "mapOperation": "DELETE"},
    ):
        assert _maps(TEXTS, wrong) == ([1], {"texts": (0, {"a": "b"})})


def test_a_map_fits_its_rules() -> None:
    rule = count_rule(ruleState="PAUSE", limitOperatorType=">", limit="map('limits', 7)", windowMinutes=1)
    assert _maps(rule)[0] == [0]
    assert _maps(LIMITS, rule, {**TEXTS, "mapName": "limits"}, {"mapName": "limits", "mapOperation": "DELETE"})[0] == [
        2,
        3,
    ]
    assert _maps(LIMITS, {**rule, "limit": "map('limits', country)"})[0] == [1]
    assert _maps(LIMITS, {**rule, "limit": 1, "filter": "map('limits', payeeId) > 0"})[0] == [1]
    assert _maps(LIMITS, {**rule, "limit": 1, "when": "map('limits', 7) > 0"})[0] == [1]  # it names no field
    assert _maps(LIMITS, {**rule, "limit": 1, "when": "map('limits', payeeId + 1) > 0"})[0] == []

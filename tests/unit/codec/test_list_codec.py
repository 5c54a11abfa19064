"""List records: what is accepted, and every reason for a rejection."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import parse_rule_record, read_entry
from fraud_rules.codec.rules.collections.lists import encode_list_records, read_list_change
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListChange, ListOperation, ListType
from tests.support.rules import LIMITS, SCHEMA

SET = {"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1, 2]}


def _read(record: object, limits: RuleLimits = LIMITS) -> ListChange:
    change = parse_rule_record(json.dumps(record).encode(), SCHEMA, limits)
    assert isinstance(change, ListChange)
    return change


def _reasons(record: object | bytes, limits: RuleLimits = LIMITS) -> list[str]:
    value = record if isinstance(record, bytes) else json.dumps(record).encode()
    with pytest.raises(RuleRejected) as rejected:
        parse_rule_record(value, SCHEMA, limits)
    return [str(reason) for reason in rejected.value.reasons]


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (SET, [1, 2]),
        ({**SET, "values": [2, 2]}, [2, 2]),
        ({**SET, "values": []}, []),
        ({**SET, "listType": "string", "values": ["a", 'q"\\u', "é,"]}, ["a", 'q"\\u', "é,"]),
        ({**SET, "listOperation": "ADD", "listType": None, "source": "ui"}, [1, 2]),
        ({"listName": "m", "listOperation": "REMOVE", "values": ["x"]}, ["x"]),
        ({"listName": "m", "listOperation": "DELETE"}, []),
        ({**SET, "values": [2**63 - 1, -(2**63) + 2]}, [2**63 - 1, -(2**63) + 2]),
    ],
)
def test_a_valid_record_is_a_change(record: dict[str, Any], values: list[int | str]) -> None:
    change = _read(record)
    assert (change.name, change.operation, change.values()) == (record["listName"], record["listOperation"], values)
    shown = {int: "long", str: "string"}[type(values[0])] if values else None
    assert change.type == (record.get("listType") or shown)


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"listName": "Mules"}, ["listName"]),
        ({"listName": "m" * 64}, ["listName"]),
        ({"listOperation": "PUT", "listType": "decimal", "values": None}, ["listOperation", "listType"]),
        ({"listType": None}, ["listType"]),
        ({"values": None}, ["values"]),
        ({"values": "1,2"}, ["values"]),
        ({"values": [1, "a", 1.5, True, None, 2**63]}, ["values"] * 5),
        ({"values": list("abc") * 20}, ["values"] * 21),
        ({"listType": "string", "values": ["a", 1, "b" * 257, "\x00"]}, ["values"] * 3),
        ({"listOperation": "DELETE"}, ["values"]),
        ({"ruleId": 1}, ["ruleId"]),
        ({"source": "My UI"}, ["source"]),
    ],
)  # fmt: skip
def test_a_rejection_has_every_reason_by_field(changed: dict[str, Any], fields: list[str]) -> None:
    assert [reason.partition(":")[0] for reason in _reasons({**SET, **changed})] == fields


def test_a_record_that_is_no_single_json_object_of_distinct_members_is_rejected() -> None:
    assert _reasons(b'{"listName": "a"') == ["record: is not JSON: Expecting ',' delimiter at character 17"]
    assert _reasons(b'{"listName": "a", "listName": "b", "listOperation": "DELETE"}') == ["listName: is given twice"]
    assert _reasons(rb'{"listName": "a", "list\u004eame": "b", "listOperation": "DELETE"}') == [
        "listName: is given twice"
    ]


def test_a_record_of_two_mebibytes_is_rejected_before_it_is_decoded() -> None:
    value = b'{"listName": "mules", "values": [' + b"1," * 2**20
    assert _reasons(value) == [
        f"record: has {len(value)} bytes, at most 1048576 are allowed: send a SET and ADDs",
    ]


def test_the_rejection_of_a_list_record_names_the_list() -> None:
    entry = read_entry(7, 1, json.dumps({**SET, "values": ["x"]}).encode(), SCHEMA, LIMITS)
    assert (entry.list_name, entry.rule_id, entry.change) == ("mules", None, None)


def test_a_long_list_is_a_set_and_adds_within_the_limit() -> None:
    values = list(range(10**9, 10**9 + 250_000))
    records = encode_list_records(
        "mules", ListOperation.SET, ListType.LONG, values, "cli", LIMITS.max_list_record_bytes
    )
    changes = [read_list_change(record, LIMITS) for record in records]
    assert max(map(len, records)) <= LIMITS.max_list_record_bytes
    assert [change.operation for change in changes] == ["SET", "ADD", "ADD"]
    assert [value for change in changes for value in change.values()] == values


@given(
    st.dictionaries(
        st.sampled_from(["listName", "listOperation", "listType", "values", "source", "ruleId"]),
        st.sampled_from(
            [None, "mules", "SET", "ADD", "DELETE", "long", "string", 1, [], [1], ["a"], [1, "a"], [None], {}]
        ),
    )
)
def test_the_short_way_accepts_only_what_the_long_way_accepts(record: dict[str, Any]) -> None:
    record = {"listName": "m", "listOperation": "ADD", **record}
    plain = json.dumps(record)
    escaped = plain.replace('"listName"', r'"listN\u0061me"')
    outcome = read_entry(0, 0, plain.encode(), SCHEMA, LIMITS).outcome
    assert outcome == read_entry(0, 0, escaped.encode(), SCHEMA, LIMITS).outcome
    assert outcome == EntryReader(SCHEMA, LIMITS).read(0, 0, plain.encode()).outcome


def test_the_limits_are_configurable() -> None:
    limits = replace(LIMITS, max_list_record_bytes=100, max_list_value_chars=3)
    assert _read({**SET, "listType": "string", "values": ["abc"]}, limits).values() == ["abc"]
    assert _reasons({**SET, "listType": "string", "values": ["abcd"]}, limits)
    assert _reasons({**SET, "values": list(range(50))}, limits)[0].startswith("record: has ")

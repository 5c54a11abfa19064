"""Files of maps: every form reads back as the same maps, and faults are named by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.rules.collections.files import (
    RejectedCollection,
    SeedCollection,
    export_collections,
    read_collections,
    read_seeds,
)
from fraud_rules.codec.rules.collections.lines import content_lines, entry_line, fields_of
from fraud_rules.codec.rules.collections.plan import plan_set
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ListType
from fraud_rules.model.value_map import MapType, MapValue, MapValueType, ValueMap
from tests.support.rules import LIMITS, SCHEMA

JSON, YAML, TEXT = RuleFormat
SUFFIXES = {JSON: "json", YAML: "yaml", TEXT: "txt"}
NUMBERS = MapType(ListType.LONG, MapValueType.DECIMAL)
STRINGS = MapType(ListType.STRING, MapValueType.STRING)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
LONGS = st.integers(-(2**63) + 2, 2**63 - 1)
DECIMALS = st.integers(-(10**18) + 1, 10**18 - 1)


def read(text: str, form: RuleFormat = TEXT) -> list[SeedCollection | RejectedCollection]:
    return read_collections(CollectionKind.MAP, Path(f"maps.{SUFFIXES[form]}"), text, LIMITS)


@pytest.mark.parametrize("form", RuleFormat)
@given(numbers=st.dictionaries(LONGS, DECIMALS, max_size=5), texts=st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_an_export_reads_back_as_the_same_maps(
    form: RuleFormat, numbers: dict[int, int], texts: dict[str, str]
) -> None:
    if form is TEXT:
        texts = {key: value for key, value in texts.items() if len((key + value).splitlines()) < 2}
        texts = {key: value for key, value in texts.items() if not (key + value)[-1:].isspace()}
    maps = [ValueMap.of("limits", NUMBERS, 1, {**numbers}), ValueMap.of("regions", STRINGS, 1, {**texts})]
    found = read(export_collections(maps, form), form)
    assert [(each.name, each.type, each.entries) for each in found if isinstance(each, SeedCollection)] == [
        ("limits", NUMBERS, numbers),
        ("regions", STRINGS, texts),
    ]


def test_the_lines_of_one_map_read_back_as_its_entries() -> None:
    texts: dict[str, MapValue] = {"#7": "# a", " x": "b ", "": ",", 'a"b': "c"}
    lines = content_lines("".join(f"{entry_line(key, value)}\n" for key, value in texts.items()))
    assert dict(fields_of(line) for _, line in lines) == texts


def test_a_seed_file_has_numbers_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(
        "mapName: limits\nkeyType: long\nvalueType: decimal\nentries:\n  7: 250.00\n  '8': 99.5\n"
    )
    (seed,) = read_seeds(CollectionKind.MAP, [tmp_path], LIMITS)
    assert seed.entries == {7: 250_000_000, 8: 99_500_000}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("limits,long,decimal,7", "line 1: a line has the form name,key type,value type,key,value"),
        ("limits,long,money,7,1", "line 1: has the type 'money'; a type is one of decimal, string"),
        ("limits,long,decimal,x,1", "line 1: must be a whole number from"),
        ("limits,long,decimal,7,1\nlimits,long,decimal,7,2", "line 2: has the key '7' again"),
        ("limits,long,decimal,7,1.1234567", "line 1: must be a number with at most 12 digits before and 6 after"),
    ],
)
def test_a_fault_is_named_by_its_line(text: str, says: str) -> None:
    (rejected,) = [each for each in read(text) if isinstance(each, RejectedCollection)]
    assert any(says in str(reason) for reason in rejected.reasons), rejected.reasons


def _after(log: RuleTimeline, records: list[bytes]) -> RuleTimeline:
    entries = [read_entry(log.end + i, 0, record, SCHEMA, LIMITS) for i, record in enumerate(records)]
    assert all(entry.change is not None for entry in entries)
    return log.extended(entries)


def test_a_map_in_force_gets_only_the_differences() -> None:
    entries: dict[int | str, MapValue | None] = {key: key * 10**6 for key in range(10)}
    log = _after(RuleTimeline(), plan_set(None, "limits", NUMBERS, entries, "seed", LIMITS))
    changed = {key: value for key, value in entries.items() if key} | {3: 5}
    records = plan_set(log.maps["limits"], "limits", NUMBERS, changed, "seed", LIMITS)
    assert [b'"ADD"' in record for record in records] == [True, False]
    assert _after(log, records).maps["limits"].entries() == changed
    assert plan_set(_after(log, records).maps["limits"], "limits", NUMBERS, changed, "seed", LIMITS) == []

"""Files of lists: every form reads back as the same lists, and faults are named by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.collections.files import (
    RejectedCollection,
    SeedCollection,
    export_collections,
    read_collections,
    read_seeds,
)
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListType, ListValue, ValueList

LIMITS = RuleLimits()
JSON, YAML, TEXT = RuleFormat
SUFFIXES = {JSON: "json", YAML: "yaml", TEXT: "txt"}

STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


def read(text: str, form: RuleFormat) -> list[SeedCollection | RejectedCollection]:
    return read_collections(CollectionKind.LIST, Path(f"lists.{SUFFIXES[form]}"), text, LIMITS)


def faults(text: str, form: RuleFormat = TEXT) -> list[str]:
    rejected = [each for each in read(text, form) if isinstance(each, RejectedCollection)]
    return [f"{each.name}: {reason}" for each in rejected for reason in each.reasons]


@pytest.mark.parametrize("form", RuleFormat)
@given(longs=st.sets(st.integers(-(2**63) + 2, 2**63 - 1), max_size=5), strings=st.sets(STRINGS, max_size=5))
def test_an_export_reads_back_as_the_same_lists(form: RuleFormat, longs: set[int], strings: set[str]) -> None:
    if form is TEXT:
        strings = {each for each in strings if "".join(each.splitlines()) == each}
    lists = [
        ValueList.of("mules", ListType.LONG, 1, sorted(longs)),
        ValueList.of("types", ListType.STRING, 1, sorted(strings)),
    ]
    wanted: list[tuple[str, ListType, set[ListValue]]] = [(each.name, each.type, set(each.values())) for each in lists]
    found = [(each.name, each.type, set(each.values)) for each in read(export_collections(lists, form), form)]  # type: ignore[union-attr]
    assert found == wanted


def test_a_value_of_several_lines_has_no_text_form() -> None:
    with pytest.raises(InputInvalid, match="export json or yaml"):
        export_collections([ValueList.of("types", ListType.STRING, 1, ["a\nb"])], TEXT)


def test_the_text_form_has_one_value_per_line() -> None:
    text = '# known\nmules,long,7\n\ntypes, string, CSH \nmules,long,8\nnone,long\ntypes,string," a, ""b"""\n'
    assert [(each.name, each.type, each.values) for each in read(text, TEXT)] == [  # type: ignore[union-attr]
        ("mules", "long", [7, 8]), ("types", "string", ["CSH", ' a, "b"']), ("none", "long", []),
    ]  # fmt: skip


def test_every_garbage_line_is_named() -> None:
    text = "mules,long,7\nmules,long,x\n\nhello\nMules,long,1\nmules,int,1\nmules,string,a\nmules,long,1,2\n"
    assert faults(text + f'mules,long,{2**63}\ntypes,string,"a\n') == [
        f"mules: line 2: must be a whole number from {-(2**63) + 2} to {2**63 - 1}, not 'x'",
        "mules: line 7: has the type string, but line 1 has long",
        f"mules: line 9: must be a whole number from {-(2**63) + 2} to {2**63 - 1}, not {2**63}",
        "None: line 4: a line has the form name,type,value",
        "None: line 5: has the list name 'Mules'; a list's name has the form [a-z][a-z0-9_-]{0,62}",
        "None: line 6: has the type 'int'; a type is one of long, string",
        "None: line 8: a line has the form name,type,value",
        "None: line 10: a line has the form name,type,value",
    ]


def test_many_garbage_lines_are_counted() -> None:
    found = faults("garbage\n" * 1_000)
    assert (len(found), found[-1]) == (21, "None: lines: 980 more lines have faults")


@pytest.mark.parametrize("operation", ["ADD", "REMOVE", "DELETE"])
def test_a_file_has_whole_lists(operation: str) -> None:
    values = "" if operation == "DELETE" else ', "values": [1]'
    assert faults(f'{{"listName": "mules", "listOperation": "{operation}"{values}}}', JSON) == [
        "mules: listOperation: is SET in a file: it has the whole list"
    ]


@given(st.text(max_size=60) | st.text(st.sampled_from('mules,long"7\n #'), max_size=40), st.sampled_from(RuleFormat))
def test_any_text_is_read_or_rejected(text: str, form: RuleFormat) -> None:
    try:
        read(text, form)
    except InputInvalid:
        return


def test_seed_files_report_every_fault_and_double_lists(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mules,long,7\nmules,long,x\nfine,long,1\n")
    (tmp_path / "b.yaml").write_text("listName: fine\nlistType: long\nvalues: [1]\n")
    with pytest.raises(InputInvalid) as invalid:
        read_seeds(CollectionKind.LIST, [tmp_path], LIMITS)
    said = str(invalid.value)
    assert "a.txt, line 1: line 2: must be a whole number" in said
    assert "b.yaml, list 1: a.txt, line 3 has the list fine too" in said

"""The output of the list commands: tables, plain values or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich import box
from rich.table import Table

from fraud_rules.cli.display.output import console, print_json
from fraud_rules.model.value_list import ListValue, ValueList

_SHOWN_VALUES: Final = 50


def print_lists(lists: Sequence[ValueList], rules: Mapping[str, Sequence[int]], as_json: bool) -> None:
    """Print the lists, each with the ids of the rules that name it."""
    if as_json:
        print_json([_document(each, rules.get(each.name, ())) for each in lists])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("list")
    table.add_column("type")
    table.add_column("values", justify="right")
    table.add_column("version", justify="right")
    table.add_column("rules", overflow="fold")
    for each in lists:
        used = ", ".join(map(str, rules.get(each.name, ())))
        table.add_row(each.name, each.type.value, f"{each.size:,}", str(each.version), used)
    console().print(table)
    if not lists:
        print("there are no lists")


def print_list(known: ValueList, rules: Sequence[int], as_json: bool) -> None:
    """Print the values of a list, one per line."""
    if as_json:
        print_json({**_document(known, rules), "values": known.values()})
        return
    print("".join(f"{value}\n" for value in known.values()), end="")


def print_difference(known: ValueList | None, name: str, changed: Sequence[ListValue] | None) -> None:
    """Print the values that a list would gain and lose; None for a list that stays as it is."""
    if changed is None:
        print(f"list {name} is unchanged")
        return
    before = [] if known is None else known.values()
    had, has = set(before), set(changed)
    lines = [f"  - {_printable(value)}" for value in before if value not in has]
    removed = len(lines)
    lines += [f"  + {_printable(value)}" for value in dict.fromkeys(changed) if value not in had]
    effect = "added" if known is None else "changed"
    print(f"list {name} would be {effect}: {len(lines) - removed} values added, {removed} removed")
    print("".join(f"{line}\n" for line in lines[:_SHOWN_VALUES]), end="")
    if len(lines) > _SHOWN_VALUES:
        print(f"  and {len(lines) - _SHOWN_VALUES} more")


def _printable(value: ListValue) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)


def _document(known: ValueList, rules: Sequence[int]) -> dict[str, object]:
    return {
        "listName": known.name,
        "listType": known.type.value,
        "size": known.size,
        "version": known.version,
        "rules": list(rules),
    }

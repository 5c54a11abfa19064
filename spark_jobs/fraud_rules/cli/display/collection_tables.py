"""The output of the commands for lists and maps of the rule log: tables, differences or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fraud_rules.cli.display.api_answers import print_table
from fraud_rules.cli.display.output import print_json
from fraud_rules.codec.rules.collections.plan import Entries
from fraud_rules.model.collection_history import Collection
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ValueList
from fraud_rules.model.value_map import entry_text

_SHOWN_VALUES: Final = 50
MEMBERS: Final = {CollectionKind.LIST: "values", CollectionKind.MAP: "entries"}
_MISSING: Final = object()


def print_collections(kind: CollectionKind, log: RuleTimeline, as_json: bool) -> None:
    """Print the lists or maps of the rule log, each with the ids of the rules that name it."""
    rules, known = log.rules_naming(kind), log.collections.by_name()
    found = [known[name] for name in sorted(known) if name[0] is kind]
    if as_json:
        print_json([_document(each, rules.get(each.name, ())) for each in found])
        return
    rows = (
        (each.name, each.type, f"{each.size:,}", each.version, ", ".join(map(str, rules.get(each.name, ()))))
        for each in found
    )
    print_table((kind.value, "type", MEMBERS[kind], "version", "rules"), rows, f"there are no {kind}s")


def print_difference(known: Collection | None, kind: CollectionKind, name: str, changed: Entries | None) -> None:
    """Print the members that a list or map would gain and lose; None for one that stays as it is."""
    if changed is None:
        print(f"{kind} {name} is unchanged")
        return
    before: Entries = {} if known is None else known.entries()
    lines = [f"  - {_shown(key, before)}" for key, value in before.items() if changed.get(key, _MISSING) != value]
    removed = len(lines)
    lines += [f"  + {_shown(key, changed)}" for key, value in changed.items() if before.get(key, _MISSING) != value]
    effect = "added" if known is None else "changed"
    print(f"{kind} {name} would be {effect}: {len(lines) - removed} {MEMBERS[kind]} added, {removed} removed")
    print("".join(f"{line}\n" for line in lines[:_SHOWN_VALUES]), end="")
    if len(lines) > _SHOWN_VALUES:
        print(f"  and {len(lines) - _SHOWN_VALUES} more")


def _shown(key: object, entries: Entries) -> str:
    value = entries[key]
    text = str(key) if value is None else f"{key} = {entry_text(value)}"
    return text if text.isprintable() else ascii(text)


def _document(known: Collection, rules: Sequence[int]) -> dict[str, object]:
    if isinstance(known, ValueList):
        named = {"listName": known.name, "listType": known.type.value}
    else:
        named = {"mapName": known.name, "keyType": known.type.key.value, "valueType": known.type.value.value}
    return {**named, "size": known.size, "version": known.version, "rules": list(rules)}

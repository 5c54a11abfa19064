"""Which rules use which lists, and whether a rule fits the lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.collection_models import CollectionUse
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.collections.summary import type_of
from fraud_control.service.items.heads import in_use
from fraud_control.store.models import ItemHead
from fraud_rules.errors import Reason
from fraud_rules.model.collection_history import collection_faults
from fraud_rules.model.rule import Rule
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListChange, ListOperation, ListType
from fraud_rules.model.value_map import MapType

__all__ = [
    "check_lists",
    "faults_of_lists",
    "in_force",
    "named_collections",
    "strongest_state",
    "uses_by_name",
    "uses_of",
]

_PARSED: Final = 20_000
"""The rules whose lists stay in memory: twice the rules of a large store. Parsing 5,000 rules takes about a second."""
_STRONGEST_FIRST = (StateName.ACTIVE, StateName.PAUSE, StateName.SHADOW)


def uses_by_name(session: Session, reader: RuleReader) -> Mapping[str, Sequence[CollectionUse]]:
    """The rules that name a list, drafts too, by the list's name."""
    found: dict[str, list[CollectionUse]] = {}
    for use, names in _uses(session, reader, "list"):
        for name in names:
            found.setdefault(name, []).append(use)
    return found


def uses_of(session: Session, reader: RuleReader, name: str) -> Sequence[CollectionUse]:
    """The rules that name this list, drafts too."""
    return [use for use, names in _uses(session, reader, name) if name in names]


def named_collections(session: Session, reader: RuleReader, document: str) -> Mapping[str, ItemHead | None]:
    """The lists that the rule of a document names, by name; None for a missing list. A change of a list names none."""
    rule = reader.read_stored(document)
    return {name: session.get(ItemHead, ItemName.of_list(name)) for name in (() if rule is None else rule.lists)}


def in_force(session: Session, reader: RuleReader, change: ListChange, known: ListType | None) -> Sequence[int]:
    """The rules in force that name the list of type `known`, if the change may be rejected because of them."""
    retypes = change.operation is ListOperation.SET and known is not None and known is not change.type
    if change.operation is not ListOperation.DELETE and not retypes:
        return ()
    return [use.rule_id for use in uses_of(session, reader, change.name) if use.state.in_log]


def strongest_state(uses: Sequence[CollectionUse]) -> StateName:
    """The state of the rules that decides who may change their list. A list without rules counts as a draft."""
    states = {use.state for use in uses}
    return next((state for state in _STRONGEST_FIRST if state in states), StateName.DRAFT)


def faults_of_lists(rule: Rule, list_type: Callable[[str], ListType | None]) -> list[Reason]:
    """The reasons why a rule does not fit the lists. The store has no maps, so only the rule log decides about them."""
    maps = rule.maps

    def type_of_collection(named: CollectionName) -> ListType | MapType | None:
        kind, name = named
        return list_type(name) if kind is CollectionKind.LIST else maps[name]

    return collection_faults(rule, type_of_collection)


def check_lists(session: Session, rule: Rule) -> None:
    """Raise Invalid if the rule names a list that is missing or that has another type."""
    faults = faults_of_lists(rule, lambda name: type_of(session, name))
    if faults:
        raise Invalid(faults, rule.rule_id)


def _uses(session: Session, reader: RuleReader, text: str) -> Iterator[tuple[CollectionUse, Collection[str]]]:
    """The rules that name lists and whose documents have a text, with the names of their lists."""
    rules = select(ItemHead.item_key, ItemHead.state, ItemHead.document).where(
        in_use(RULE), ItemHead.document.contains(text, autoescape=True)
    )
    for key, state, document in session.execute(rules.order_by(ItemHead.number)):
        name, lists = _parsed(reader, document)
        if lists:
            yield CollectionUse(rule_id=int(key), name=name, state=StateName(state)), lists


@lru_cache(maxsize=_PARSED)
def _parsed(reader: RuleReader, document: str) -> tuple[str | None, Collection[str]]:
    """The name of a rule, and the names of its lists. The key is the text itself, so it does not matter which server
    changed the rule, and whether the change was committed.
    """
    rule = reader.read_stored(document)
    if rule is None:
        return None, ()
    name = rule.document.get("name")
    return name if isinstance(name, str) else None, frozenset(rule.lists)

"""Which rules use which lists and maps, and whether a rule fits them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.collection_types import item_of
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleUse
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.collections.summary import type_of
from fraud_control.service.items.heads import in_use
from fraud_control.store.models import ItemHead
from fraud_rules.model.collection_history import CollectionChange, CollectionType, lookup_faults
from fraud_rules.model.rule import Rule
from fraud_rules.model.value_list import ListOperation

_PARSED: Final = 20_000
"""The rules whose names stay in memory: twice the rules of a large store. Parsing 5,000 takes about a second."""
_STRONGEST_FIRST = (StateName.ACTIVE, StateName.SIGNAL, StateName.PAUSE, StateName.SHADOW)


class NamesInRule(NamedTuple):
    """The name of a rule, and the lists, the maps and the rules that it names."""

    own: str | None
    collections: Collection[ItemName]
    rules: tuple[int, ...]


def uses_by_name(session: Session, reader: RuleReader, kind: str) -> Mapping[str, Sequence[RuleUse]]:
    """The rules that name a list or map of this kind, drafts too, by its name."""
    found: dict[str, list[RuleUse]] = {}
    for use, items in _uses(session, reader, kind):
        for item in items:
            if item.kind == kind:
                found.setdefault(item.key, []).append(use)
    return found


def uses_of(session: Session, reader: RuleReader, item: ItemName) -> Sequence[RuleUse]:
    """The rules that name this list or map, drafts too."""
    return [use for use, items in _uses(session, reader, item.key) if item in items]


def named_collections(session: Session, reader: RuleReader, document: str) -> Mapping[ItemName, ItemHead | None]:
    """The lists and maps that the rule of a document names; None for a missing one."""
    rule = reader.read_stored(document)
    return {item: session.get(ItemHead, item) for item in sorted(_named(rule))}


def in_force(
    session: Session, reader: RuleReader, change: CollectionChange, known: CollectionType | None
) -> Sequence[int]:
    """The rules in force that name the list or map of type `known`, if the change may be rejected because of them."""
    retypes = change.operation is ListOperation.SET and known is not None and known != change.type
    if change.operation is not ListOperation.DELETE and not retypes:
        return ()
    return [use.rule_id for use in uses_of(session, reader, item_of(change)) if use.state.in_log]


def strongest_state(uses: Sequence[RuleUse]) -> StateName:
    """The state of the rules that decides who may change their list or map. One without rules counts as a draft."""
    states = {use.state for use in uses}
    return next((state for state in _STRONGEST_FIRST if state in states), StateName.DRAFT)


def check_collections(session: Session, rule: Rule) -> None:
    """Raise Invalid if the rule names a list or map that is missing or that has another type."""
    faults = lookup_faults(rule.lookups, lambda named: type_of(session, ItemName.of_collection(named)))
    if faults:
        raise Invalid(faults, rule.rule_id)


def _named(rule: Rule | None) -> frozenset[ItemName]:
    return frozenset(() if rule is None else map(ItemName.of_collection, rule.collections))


def _uses(session: Session, reader: RuleReader, text: str) -> Iterator[tuple[RuleUse, Collection[ItemName]]]:
    """The rules that name lists or maps and whose documents have a text, in any case, with their lists and maps."""
    rules = select(ItemHead.item_key, ItemHead.state, ItemHead.document).where(
        in_use(RULE), ItemHead.document.icontains(text, autoescape=True)
    )
    for key, state, document in session.execute(rules.order_by(ItemHead.number)):
        found = names_in(reader, document)
        if found.collections:
            yield RuleUse(rule_id=int(key), name=found.own, state=StateName(state)), found.collections


@lru_cache(maxsize=_PARSED)
def names_in(reader: RuleReader, document: str) -> NamesInRule:
    """The names in a stored rule. The key is the text itself, so it does not matter which server changed the rule, and
    whether the change was committed.
    """
    rule = reader.read_stored(document)
    if rule is None:
        return NamesInRule(None, (), ())
    name = rule.document.get("name")
    return NamesInRule(name if isinstance(name, str) else None, _named(rule), rule.named_rules)

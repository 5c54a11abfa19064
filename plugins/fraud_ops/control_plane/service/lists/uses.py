"""Which rules use which lists, and whether a rule fits the lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.domain.errors import Invalid
from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.list_models import ListUse
from fraud_ops.control_plane.domain.rule_input import RuleReader
from fraud_ops.control_plane.store.models import ListHead, RuleHead
from fraud_rules.errors import Reason
from fraud_rules.model.list_history import list_faults
from fraud_rules.model.rule import Rule
from fraud_rules.model.value_list import ListType

__all__ = ["check_lists", "faults_of_lists", "strongest_state", "type_of", "uses_of_lists"]

_STRONGEST_FIRST = (StateName.ACTIVE, StateName.PAUSE, StateName.SHADOW)


def uses_of_lists(session: Session, reader: RuleReader) -> Mapping[str, Sequence[ListUse]]:
    """The rules that name a list, drafts too, by the list's name."""
    named = RuleHead.document.contains("list")
    heads = session.scalars(
        select(RuleHead).where(named, RuleHead.state != StateName.DELETE.value).order_by(RuleHead.rule_id)
    )
    found: dict[str, list[ListUse]] = {}
    for head in heads:
        rule = reader.read_stored(head.document)
        if rule is not None and rule.lists:
            use = ListUse(rule_id=head.rule_id, name=_name(rule), state=StateName(head.state))
            for name in rule.lists:
                found.setdefault(name, []).append(use)
    return found


def strongest_state(uses: Sequence[ListUse]) -> StateName:
    """The state of the rules that decides who may change their list. A list without rules counts as a draft."""
    states = {use.state for use in uses}
    return next((state for state in _STRONGEST_FIRST if state in states), StateName.DRAFT)


def type_of(session: Session, name: str) -> ListType | None:
    """The type of a list with all its changes; None for a list that does not exist."""
    head = session.get(ListHead, name)
    return None if head is None or head.deleted else ListType(head.type)


def faults_of_lists(session: Session, rule: Rule) -> list[Reason]:
    """The reasons why a rule does not fit the lists."""
    return list_faults(rule, lambda name: type_of(session, name))


def check_lists(session: Session, rule: Rule) -> None:
    """Raise Invalid if the rule names a list that is missing or that has another type."""
    faults = faults_of_lists(session, rule)
    if faults:
        raise Invalid(faults, rule.rule_id)


def _name(rule: Rule) -> str | None:
    name = rule.document.get("name")
    return name if isinstance(name, str) else None

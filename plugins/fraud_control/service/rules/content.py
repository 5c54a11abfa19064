"""The content of a rule: a document in a state. A change of it is one record of the rule log, or none for a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import DriftSide, RuleInput
from fraud_control.domain.rule_input import ManagedMembers, encode_rule
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.uses import check_collections
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.contributors import contributors_of
from fraud_control.service.items.kind import Foreign, NewRevision, Place, Sent, Side
from fraud_control.service.items.saving import revision_row
from fraud_control.store.alert_models import SnoozeRow
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.errors import RuleRejected
from fraud_rules.model.collection_history import lookup_faults
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.ruleset import LogEntry, RuleTimeline

_SEARCHED_MEMBERS: Final = ("name", "description", "owner", "severity")


@dataclass(frozen=True, slots=True)
class RuleContent:
    """A rule's document, encoded, in a state."""

    rule_id: int
    state: StateName
    document: str
    is_whole = True


def name_of(content: RuleContent) -> ItemName:
    """The name of the rule."""
    return ItemName.of_rule(content.rule_id)


def log_key(head: ItemHead) -> bytes:
    """The key of the rule's records: its id."""
    return head.item_key.encode()


def facts(head: ItemHead) -> dict[str, Any]:
    """The state and the document."""
    return {"state": head.state, "document": document_of(head.document)}


def inherited(head: ItemHead) -> frozenset[str]:
    """The contributors stay until an approval."""
    return contributors_of(head)


def described(work: UnitOfWork, content: RuleContent) -> dict[str, Any]:
    """The next state and document."""
    return {"state": content.state.value, "document": document_of(content.document)}


def requested(head: ItemHead, content: RuleContent) -> dict[str, Any]:
    """The document, and the state if it changes."""
    state = content.state.value
    return {"document": content.document, "target": None if state == head.state else state}


def approved(work: UnitOfWork, request: ApprovalRow, head: ItemHead) -> RuleContent:
    """The requested document and state."""
    rule_id, state = int(head.item_key), StateName(request.target or head.state)
    return RuleContent(rule_id, state, stored_document_in(work, state, rule_id, request.document))


def records(work: UnitOfWork, head: ItemHead, new: NewRevision[RuleContent]) -> list[bytes]:
    """The document for a state of the rule log; the deletion of a rule that was in the log."""
    if new.content.state.in_log:
        return [new.content.document.encode()]
    if new.content.state is StateName.DELETE and StateName(head.state).in_log:
        return [encode_document({"ruleId": new.content.rule_id, "ruleState": "DELETE", "source": new.source})]
    return []


def apply(
    work: UnitOfWork, head: ItemHead, new: NewRevision[RuleContent], sent: Sequence[Sent], facts: Mapping[str, Any]
) -> None:
    """Save the document and the revision."""
    content, place = new.content, sent[0][1] if sent else Place()
    work.count_transition(StateName(head.state), content.state)
    work.names.saved(content.rule_id, content.state, content.document)
    head.state, head.document, head.author = content.state.value, content.document, new.content_author
    head.search = _search_text(content.rule_id, content.document)
    head.outbox_seq, head.log_version = place
    work.session.add_all([head, revision_row(head, new, place, state=head.state, document=head.document)])
    if content.state is StateName.DELETE:  # a new rule with its number does not inherit the snoozes
        running = update(SnoozeRow).where(SnoozeRow.rule_id == content.rule_id, SnoozeRow.until_ms > work.now_ms)
        work.session.execute(running.values(until_ms=work.now_ms))


def foreign(work: UnitOfWork, entry: LogEntry) -> Foreign | None:
    """The rule or the deletion. The lists, maps and rules before it in the log decide whether the log accepts it."""
    assert isinstance(entry.change, Rule | RuleDeletion)
    work.names.check_foreign(entry.change, entry.version)
    if isinstance(entry.change, Rule):
        rule = entry.change
        before = partial(work.collections.type_before, version=entry.version)
        faults = lookup_faults(rule.lookups, lambda named: before(ItemName.of_collection(named)))
        if faults:
            raise RuleRejected(faults, rule.rule_id)
        document = encode_document(rule.document).decode()
        return Foreign(RuleContent(rule.rule_id, StateName(rule.state.value), document), "rule")
    rule_id = entry.change.rule_id
    head = work.head(ItemName.of_rule(rule_id))
    if head is None or not StateName(head.state).in_log:
        return None
    return Foreign(RuleContent(rule_id, StateName.DELETE, head.document), "delete", head.author)


def in_store(session: Session, contents: CollectionContents, kind: str = RULE) -> dict[str, Side]:
    """The rules in the states of the rule log."""
    states = [state.value for state in StateName if state.in_log]
    heads = session.scalars(select(ItemHead).where(ItemHead.kind == kind, ItemHead.state.in_(states)))
    return {head.item_key: Side(head.log_version, document_of(head.document)) for head in heads}


def in_log(timeline: RuleTimeline, kind: str = RULE) -> dict[str, Side]:
    """The rules in force."""
    return {str(rule_id): Side(each.version, each.rule.document) for rule_id, each in timeline.latest.rules.items()}


def equal(contents: CollectionContents, stored: Mapping[str, Any], logged: Mapping[str, Any]) -> bool:
    """Whether two documents are equal."""
    return canonical(dict(stored)) == canonical(dict(logged))


def shown(side: Side) -> DriftSide:
    """The version and the document."""
    return DriftSide(version=side.version, document=dict(side.content))


def document_in(state: StateName, rule: Rule) -> str:
    """Encode the document of a rule. If the rule log has rules of this state, `ruleState` is this state."""
    if not state.in_log:
        return encode_rule(rule)
    return encode_document({**rule.document, "ruleState": state.value}).decode()


def stored_document_in(work: UnitOfWork, state: StateName, rule_id: int, document: str) -> str:
    """A stored document in a state. For a state of the rule log, it is validated again. Raises Invalid."""
    if not state.in_log:
        work.names.check_state(rule_id, state, document)
        return document
    return document_in(state, validated_rule(work, state, document_of(document), rule_id))


def validated_rule(work: UnitOfWork, state: StateName, document: dict[str, object], rule_id: int) -> Rule:
    """Validate a stored document again, because schema, limits, lists and rules may have changed. Raises Invalid."""
    rule = work.reader.rule(RuleInput(document=document), ManagedMembers(rule_id, state), strict=False)
    check_collections(work.session, rule)
    work.names.check(rule, state)
    return rule


def same(first: str, second: str) -> bool:
    """Whether two documents are equal as JSON values."""
    return first == second or canonical(document_of(first)) == canonical(document_of(second))


def _search_text(rule_id: int, document: str) -> str:
    members = document_of(document)
    return " ".join([str(rule_id), *(str(members.get(name, "")) for name in _SEARCHED_MEMBERS)]).lower()

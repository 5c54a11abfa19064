"""The content of a rule: a document in a state. A change of it is one record of the rule log, or none for a draft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import update

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.rule_input import encode_rule
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.contributors import contributors_of, encode_contributors
from fraud_control.service.items.kind import NewRevision, Place, Sent
from fraud_control.store.alert_models import SnoozeRow
from fraud_control.store.models import RevisionRow, RuleHead
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.model.rule import Rule

__all__ = [
    "RuleContent", "apply", "described", "document_in", "facts", "head_of", "inherited", "key_of", "records",
    "requested", "revision_row", "same",
]  # fmt: skip

_SEARCHED_MEMBERS: Final = ("name", "description", "owner", "severity")


@dataclass(frozen=True, slots=True)
class RuleContent:
    """A rule's document, encoded, in a state."""

    rule_id: int
    state: StateName
    document: str


def head_of(content: RuleContent) -> RuleHead:
    """The head of a new rule."""
    return RuleHead(rule_id=content.rule_id, last_revision=0, state=StateName.DELETE.value)


def key_of(head: RuleHead) -> bytes:
    """The key of the rule's records: its id."""
    return str(head.rule_id).encode()


def facts(head: RuleHead) -> dict[str, Any]:
    """The state and the document."""
    return {"state": head.state, "document": document_of(head.document)}


def inherited(head: RuleHead) -> frozenset[str]:
    """The contributors stay until an approval."""
    return contributors_of(head)


def described(work: UnitOfWork, content: RuleContent) -> dict[str, Any]:
    """The next state and document."""
    return {"state": content.state.value, "document": document_of(content.document)}


def requested(head: RuleHead, content: RuleContent) -> dict[str, Any]:
    """The document, and the state if it changes."""
    state = content.state.value
    return {"document": content.document, "target": None if state == head.state else state}


def records(work: UnitOfWork, head: RuleHead, new: NewRevision[RuleContent]) -> list[bytes]:
    """The document for a state of the rule log; the deletion of a rule that was in the log."""
    if new.content.state.in_log:
        return [new.content.document.encode()]
    if new.content.state is StateName.DELETE and StateName(head.state).in_log:
        return [encode_document({"ruleId": head.rule_id, "ruleState": "DELETE", "source": new.source})]
    return []


def apply(
    work: UnitOfWork, head: RuleHead, new: NewRevision[RuleContent], sent: Sequence[Sent], facts: Mapping[str, Any]
) -> None:
    """Save the document and the revision."""
    content = new.content
    work.count_transition(StateName(head.state), content.state)
    head.state, head.document, head.author = content.state.value, content.document, new.content_author
    head.search = _search_text(head.rule_id, content.document)
    head.outbox_seq, head.log_version = sent[0][1] if sent else Place()
    work.session.add_all([head, revision_row(head, new, contributors_of(head))])
    if content.state is StateName.DELETE:  # a new rule with its number does not inherit the snoozes
        running = update(SnoozeRow).where(SnoozeRow.rule_id == head.rule_id, SnoozeRow.until_ms > work.now_ms)
        work.session.execute(running.values(until_ms=work.now_ms))


def revision_row(head: RuleHead, new: NewRevision[RuleContent], contributors: Iterable[str]) -> RevisionRow:
    """The row of a revision with the highest number of the rule. Its place is that of the rule, or of `new`."""
    outbox_seq, log_version = new.place or (head.outbox_seq, head.log_version)
    return RevisionRow(
        rule_id=head.rule_id,
        revision=head.last_revision,
        state=new.content.state.value,
        document=new.content.document,
        source=new.source,
        author=new.who,
        content_author=new.content_author,
        contributors=encode_contributors(contributors),
        at_ms=head.updated_at_ms if new.at_ms is None else new.at_ms,
        comment=new.comment,
        outbox_seq=outbox_seq,
        log_version=log_version,
    )


def document_in(state: StateName, rule: Rule) -> str:
    """Encode the document of a rule. If the rule log has rules of this state, `ruleState` is this state."""
    if not state.in_log:
        return encode_rule(rule)
    return encode_document({**rule.document, "ruleState": state.value}).decode()


def same(first: str, second: str) -> bool:
    """Whether two documents are equal as JSON values."""
    return first == second or canonical(document_of(first)) == canonical(document_of(second))


def _search_text(rule_id: int, document: str) -> str:
    members = document_of(document)
    return " ".join([str(rule_id), *(str(members.get(name, "")) for name in _SEARCHED_MEMBERS)]).lower()

"""Saves a change of a rule: its revision, its audit row and its record in the outbox, in the writer's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.errors import Unavailable
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.rule_input import RuleReader, encode_rule
from fraud_control.service.approved_content import SeedContents, no_seeds
from fraud_control.service.audit import AuditChain, AuditRecord
from fraud_control.service.items.contributors import contributors_of, encode_contributors
from fraud_control.service.lists.contents import ListContents
from fraud_control.service.lists.in_work import ListsInWork
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.models import (
    ApprovalRow,
    AuditEntry,
    ItemHead,
    OutboxRow,
    RevisionRow,
    RuleHead,
    SnoozeRow,
)
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.codec.rules.lists import list_key
from fraud_rules.model.rule import Rule

__all__ = [
    "CONTROL_KEY",
    "NewRevision",
    "UnitOfWork",
    "document_in",
    "same",
    "save",
    "send_control",
    "send_list_record",
    "withdraw",
]

CONTROL_KEY: Final = b"control"

_NO_CONTRIBUTORS: Final = "[]"
_SEARCHED_MEMBERS: Final = ("name", "description", "owner", "severity")


@dataclass(slots=True)
class UnitOfWork:
    """The writer's session during a change of rules or lists, with the context of the change. Listeners get the events
    in `changed` after the commit.

    No other process writes at the same time. So the unit of work reads the ends of audit log and outbox only once.
    `requested_parts` has the parts of the open requests of rules, None until they are read. `program` makes the change
    for a user; None for a person or a job.
    """

    session: Session
    settings: ControlPlaneSettings
    reader: RuleReader
    now_ms: int
    contents: ListContents
    seeds: SeedContents = no_seeds
    changed: list[RuleChanged] = field(default_factory=list)
    requested_parts: frozenset[str] | None = None
    program: str | None = None
    lists: ListsInWork = field(init=False)
    _chain: AuditChain = field(init=False)
    _outbox: tuple[int, int] | None = field(init=False, default=None)
    _in_use: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._chain = AuditChain(self.session)
        self.lists = ListsInWork(self.session, self.contents)

    def append_audit(self, record: AuditRecord) -> AuditEntry:
        """Append a row to the audit log."""
        return self._chain.append(record, self.now_ms, self.program)

    def next_outbox_seq(self) -> int:
        """Allocate the number of the next outbox record. Raises Unavailable if too many records already wait."""
        if self._outbox is None:
            last = self.session.scalar(select(func.max(OutboxRow.seq))) or 0
            waiting = self.session.scalar(select(func.min(OutboxRow.seq)).where(OutboxRow.log_version.is_(None)))
            self._outbox = last, last + 1 if waiting is None else waiting
        last, first_waiting = self._outbox
        if last - first_waiting >= self.settings.bounds.outbox:
            raise Unavailable(f"{last - first_waiting + 1} changes already wait for the rule log: is Kafka down?")
        self._outbox = last + 1, first_waiting
        return last + 1

    def report(self, head: ItemHead) -> None:
        """Report a change of an item to the listeners."""
        self.changed.append(RuleChanged(revision=head.revision, **head.item))

    def rules_in_use(self) -> int:
        """Count the rules that are not deleted."""
        if self._in_use is None:
            counted = select(func.count()).where(RuleHead.state != StateName.DELETE.value)
            self._in_use = self.session.scalar(counted) or 0
        return self._in_use

    def count_transition(self, before: StateName, after: StateName) -> None:
        """Update the count of rules in use after a transition."""
        if self._in_use is not None:
            self._in_use += (after is not StateName.DELETE) - (before is not StateName.DELETE)

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """Run a part of the change. After an error, roll back only this part, and raise the error again."""
        before = self._chain.end, self._outbox, self._in_use, len(self.changed)
        try:
            with self.session.begin_nested():
                yield
        except BaseException:
            self.session.expire_all()  # a row that was inserted and read again in the savepoint would stay otherwise
            self._chain.end, self._outbox, self._in_use, reported = before
            del self.changed[reported:]
            self.lists.forget()
            self.requested_parts = None
            raise

    def roll_back_all(self) -> None:
        """Roll back the whole change. Do not use this object afterwards."""
        self.session.rollback()
        self.changed.clear()


@dataclass(frozen=True, slots=True)
class NewRevision:
    """The next revision of a rule. `who` is the user who makes the change, `author` the user who wrote the document.
    `contributors` changed the document since its last approval; None stands for those of the previous revision and
    `author`. With `publish`, `save` puts a record of the change into the outbox, except for drafts.

    `at_ms` is the time of the change; None stands for the present. `action` and `detail` go into the audit row.
    """

    state: StateName
    document: str
    source: str
    who: str
    author: str
    action: str
    comment: str = ""
    publish: bool = True
    detail: dict[str, Any] = field(default_factory=dict)
    at_ms: int | None = None
    contributors: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    """A record for the rule log. If `wipes` is true, it deletes all rules."""

    key: bytes
    value: bytes
    rule_id: int | None = None
    list_name: str | None = None
    revision: int | None = None
    wipes: bool = False


def save(
    work: UnitOfWork,
    head: RuleHead | None,
    rule_id: int,
    new: NewRevision,
    *,
    outbox_seq: int | None = None,
    log_version: int | None = None,
) -> RuleHead:
    """Save the next revision of a rule, or the first revision of a new rule (`head` is None). Return the rule.

    The change withdraws an open request of the rule. `outbox_seq` or `log_version` identifies the record that causes
    the change, if that record is already in the outbox or in the rule log. Raises Unavailable if too many records
    already wait in the outbox.
    """
    facts = None if head is None else _facts(head)
    before = StateName.DELETE if head is None else StateName(head.state)
    withdraw(work, head, new.who)
    revision = 1 if head is None else head.last_revision + 1
    audit = AuditRecord(new.who, new.action, f"rule {rule_id}", facts, _after(revision, new), rule_id)
    entry = work.append_audit(audit)
    record = _record(rule_id, before, new) if new.publish else None
    if record is not None:
        outbox_seq = _send(work, _Record(str(rule_id).encode(), record, rule_id, revision=revision), entry)
    head = _updated_head(work, head, rule_id, revision, new)
    head.outbox_seq, head.log_version = outbox_seq, log_version
    work.session.add(_revision(work, head, new))
    if new.state is StateName.DELETE:
        _end_snoozes(work, rule_id)
    work.count_transition(before, new.state)
    work.changed.append(RuleChanged(rule_id, revision))
    return head


def _end_snoozes(work: UnitOfWork, rule_id: int) -> None:
    """End the snoozes of a deleted rule, so that a new rule with its number does not inherit them."""
    running = update(SnoozeRow).where(SnoozeRow.rule_id == rule_id, SnoozeRow.until_ms > work.now_ms)
    work.session.execute(running.values(until_ms=work.now_ms))


def _send(work: UnitOfWork, record: _Record, entry: AuditEntry) -> int:
    """Put a record into the outbox and return its number. Raises Unavailable if too many records already wait."""
    row = OutboxRow(
        seq=work.next_outbox_seq(),
        rule_id=record.rule_id,
        list_name=record.list_name,
        revision=record.revision,
        key=record.key,
        value=record.value,
        wipes=record.wipes,
        audit=f"{entry.seq}:{entry.hash}",
        created_ms=work.now_ms,
    )
    work.session.add(row)
    return row.seq


def send_control(work: UnitOfWork, value: bytes, entry: AuditEntry, *, wipes: bool) -> int:
    """Put a control into the outbox and return its number. Raises Unavailable if too many records already wait."""
    return _send(work, _Record(CONTROL_KEY, value, wipes=wipes), entry)


def send_list_record(work: UnitOfWork, name: str, revision: int, value: bytes, entry: AuditEntry) -> int:
    """Put a record of a list into the outbox and return its number. Raises Unavailable if too many records wait."""
    return _send(work, _Record(list_key(name), value, list_name=name, revision=revision), entry)


def withdraw(work: UnitOfWork, head: ItemHead | None, who: str, reason: str = "") -> None:
    """Withdraw the open request of a rule or list, because the rule or list changes, or for another reason."""
    if head is None or head.approval_id is None:
        return
    work.session.execute(
        update(ApprovalRow)
        .where(ApprovalRow.id == head.approval_id, ApprovalRow.decision.is_(None))
        .values(
            decision="withdrawn",
            decided_by=who,
            decided_at_ms=work.now_ms,
            decision_comment=reason or f"the {head.noun} has changed",
        )
    )
    head.approval_id = None
    if reason:  # no other change reports the rule
        work.report(head)


def document_in(state: StateName, rule: Rule) -> str:
    """Encode the document of a rule. If the rule log has rules of this state, `ruleState` is this state."""
    if not state.in_log:
        return encode_rule(rule)
    return encode_document({**rule.document, "ruleState": state.value}).decode()


def _updated_head(work: UnitOfWork, head: RuleHead | None, rule_id: int, revision: int, new: NewRevision) -> RuleHead:
    if head is None:
        head = RuleHead(rule_id=rule_id, contributors=_NO_CONTRIBUTORS)
        work.session.add(head)
    head.revision = head.last_revision = revision
    head.state, head.document, head.source = new.state.value, new.document, new.source
    head.search = _search_text(rule_id, new.document)
    head.contributors = encode_contributors(_contributors(head, new))
    head.author, head.updated_by = new.author, new.who
    head.updated_at_ms = work.now_ms if new.at_ms is None else new.at_ms
    head.approval_id = None
    return head


def _revision(work: UnitOfWork, head: RuleHead, new: NewRevision) -> RevisionRow:
    return RevisionRow(
        rule_id=head.rule_id,
        revision=head.revision,
        state=head.state,
        document=head.document,
        source=head.source,
        author=new.who,
        content_author=new.author,
        contributors=head.contributors,
        at_ms=head.updated_at_ms,
        comment=new.comment,
        outbox_seq=head.outbox_seq,
        log_version=head.log_version,
    )


def _contributors(head: RuleHead, new: NewRevision) -> frozenset[str]:
    return contributors_of(head) | {new.author} if new.contributors is None else new.contributors


def _record(rule_id: int, before: StateName, new: NewRevision) -> bytes | None:
    """Build the record for the rule log; None for a change that stays in the store."""
    if new.state.in_log:
        return new.document.encode()
    if new.state is StateName.DELETE and before.in_log:
        return encode_document({"ruleId": rule_id, "ruleState": "DELETE", "source": new.source})
    return None


def _facts(head: RuleHead) -> dict[str, Any]:
    return {"revision": head.revision, "state": head.state, "document": document_of(head.document)}


def _after(revision: int, new: NewRevision) -> dict[str, Any]:
    facts = {"revision": revision, "state": new.state.value, "document": document_of(new.document)}
    comment = {"comment": new.comment} if new.comment else {}
    return facts | comment | new.detail


def _search_text(rule_id: int, document: str) -> str:
    members = document_of(document)
    return " ".join([str(rule_id), *(str(members.get(name, "")) for name in _SEARCHED_MEMBERS)]).lower()


def same(first: str, second: str) -> bool:
    """Whether two documents are equal as JSON values."""
    return first == second or canonical(document_of(first)) == canonical(document_of(second))

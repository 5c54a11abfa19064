"""The writer's transaction: what a change reads, appends to the audit log and puts into the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Unavailable
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.audit import AuditChain, AuditRecord
from fraud_control.service.collections.in_work import CollectionsInWork
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.heads import in_use
from fraud_control.service.pseudonyms import Pseudonyms
from fraud_control.service.rules.approved_content import SeedContents, no_seeds
from fraud_control.service.rules.naming import NamesInWork
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.models import AuditEntry, ItemHead, OutboxRow


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
    contents: CollectionContents
    seeds: SeedContents = no_seeds
    changed: list[RuleChanged] = field(default_factory=list)
    requested_parts: frozenset[str] | None = None
    program: str | None = None
    collections: CollectionsInWork = field(init=False)
    names: NamesInWork = field(init=False)
    pseudonyms: Pseudonyms = field(init=False)
    _chain: AuditChain = field(init=False)
    _outbox: tuple[int, int] | None = field(init=False, default=None)
    _in_use: int | None = field(init=False, default=None)
    _heads: dict[ItemName, ItemHead] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._chain = AuditChain(self.session)
        self.collections = CollectionsInWork(self.session, self.contents)
        self.names = NamesInWork(self.session, self.reader)
        self.pseudonyms = Pseudonyms(self.session, self.reader.schema)

    def head(self, item: ItemName) -> ItemHead | None:
        """The head of an item, which may be deleted; None for an item that never existed. It is read only once: the
        session alone would forget it after each flush.
        """
        found = self._heads.get(item) or self.session.get(ItemHead, item)
        if found is not None:
            self._heads[item] = found
        return found

    def add(self, head: ItemHead) -> None:
        """Add the head of an item, which may be new."""
        self._heads[head.item] = head
        self.session.add(head)

    def append_audit(self, record: AuditRecord) -> AuditEntry:
        """Append a row to the audit log, with pseudonyms for the ids of people."""
        before, after = (self.pseudonyms.document(each) for each in (record.before, record.after))
        return self._chain.append(replace(record, before=before, after=after), self.now_ms, self.program)

    def send(
        self,
        key: bytes,
        value: bytes,
        entry: AuditEntry,
        revision: int | None = None,
        *,
        wipes: bool = False,
    ) -> int:
        """Put a record of the change with this audit row into the outbox, and return its number. If `wipes` is true, it
        deletes all rules. Raises Unavailable if too many records already wait.
        """
        row = OutboxRow(
            seq=self._next_outbox_seq(),
            kind=entry.kind,
            item_key=entry.item_key,
            revision=revision,
            key=key,
            value=value,
            wipes=wipes,
            audit=f"{entry.seq}:{entry.hash}",
            created_ms=self.now_ms,
        )
        self.session.add(row)
        return row.seq

    def _next_outbox_seq(self) -> int:
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
        self.changed.append(RuleChanged.of_item(head.item, head.revision))

    def rules_in_use(self) -> int:
        """Count the rules that are not deleted."""
        if self._in_use is None:
            counted = select(func.count()).where(in_use(RULE))
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
            self.collections.forget()
            self.names.forget()
            self._heads.clear()
            self.requested_parts = None
            raise

    def roll_back_all(self) -> None:
        """Roll back the whole change. Do not use this object afterwards."""
        self.session.rollback()
        self.changed.clear()

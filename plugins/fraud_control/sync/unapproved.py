"""Finds content in force that has no approval, although four eyes is on: rules, and the lists that they name.

The changes of users pass the approval. A record of another writer of the rule log, and a row of the table in
`rules-cdc`, do not: Kafka's ACLs decide who may write them, and their member `source` proves nothing. Only the content
of a seed file counts as approved, because the files belong to this installation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import system_author
from fraud_control.service.lists.expiry import EXPIRY_AUTHOR
from fraud_control.service.lists.uses import strongest_state, uses_of
from fraud_control.service.lists.values import ListContents
from fraud_control.service.rules.approved_content import content_of
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.database import Database
from fraud_control.store.models import ListChangeRow, ListHead, RevisionRow, RuleHead
from fraud_rules.codec.rules.apply import validate_files
from fraud_rules.codec.rules.list_files import SeedList
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema

__all__ = ["UnapprovedList", "UnapprovedRule", "seed_documents", "unapproved_lists", "unapproved_rules"]

CDC_AUTHOR: Final = system_author("cdc")
_MOST_REVISIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class UnapprovedRule:
    """A rule with a change of another writer. `source` is what the record says; `version` is its offset in the rule
    log."""

    rule_id: int
    source: str
    version: int | None

    def __str__(self) -> str:
        return f"rule {self.rule_id} (version {self.version}, source {self.source})"


@dataclass(frozen=True, slots=True)
class UnapprovedList:
    """A list that an ACTIVE rule names, with a change of another writer."""

    name: str
    source: str

    def __str__(self) -> str:
        return f"list {self.name} (source {self.source})"


def unapproved_rules(
    database: Database, seeds: Callable[[], Mapping[int, Sequence[bytes]]]
) -> Sequence[UnapprovedRule]:
    """The rules whose newest revision another writer wrote and no seed file has, if they are ACTIVE, or if this writer
    took them out of force. Raises Unavailable.

    `seeds` returns the contents of the seed files, see `seed_documents`.
    """
    states = [each.value for each in StateName if each.in_log]
    foreign_head = or_(RuleHead.outbox_seq.is_(None), RuleHead.updated_by == CDC_AUTHOR)
    query = select(RuleHead).where(RuleHead.state.in_(states), foreign_head).order_by(RuleHead.rule_id)
    with database.reading() as session:
        heads = [
            each
            for each in session.scalars(query)
            if each.state == StateName.ACTIVE.value or _took_out_of_force(session, each)
        ]
    known = seeds() if heads else {}
    return [
        UnapprovedRule(each.rule_id, each.source, each.log_version)
        for each in heads
        if content_of(document_of(each.document)) not in known.get(each.rule_id, ())
    ]


def unapproved_lists(store: StoreAccess, seeds: Callable[[], Sequence[SeedList]]) -> Sequence[UnapprovedList]:
    """The lists that ACTIVE rules name, if another writer made their newest change and no seed file has their values.
    The removal of expired values does not count as a change. Raises Unavailable.
    """
    newest = (
        select(ListChangeRow.name, func.max(ListChangeRow.revision).label("revision"))
        .where(ListChangeRow.author != EXPIRY_AUTHOR)
        .group_by(ListChangeRow.name)
        .subquery()
    )
    by_another = or_(ListChangeRow.outbox_seq.is_(None), ListChangeRow.author == CDC_AUTHOR)
    query = (
        select(ListChangeRow.name, ListChangeRow.source)
        .join(newest, (newest.c.name == ListChangeRow.name) & (newest.c.revision == ListChangeRow.revision))
        .join(ListHead, ListHead.name == ListChangeRow.name)
        .where(ListChangeRow.part == 0, by_another, ListHead.deleted.is_(False))
    )
    with store.database.reading() as session:
        foreign = session.execute(query.order_by(ListChangeRow.name)).all()
        known = {each.name: set(each.values) for each in seeds()} if foreign else {}
        return [
            UnapprovedList(name, source)
            for name, source in foreign
            if strongest_state(uses_of(session, store.reader, name)) is StateName.ACTIVE
            and known.get(name) != _values(session, store.contents, name)
        ]


def _took_out_of_force(session: Session, head: RuleHead) -> bool:
    """Whether the change that ended the state ACTIVE of a rule is of another writer."""
    revisions = select(RevisionRow.state, RevisionRow.outbox_seq, RevisionRow.author)
    newest_first = revisions.where(RevisionRow.rule_id == head.rule_id).order_by(RevisionRow.revision.desc())
    foreign = False
    for state, outbox_seq, author in session.execute(newest_first.limit(_MOST_REVISIONS)):
        if state != head.state:
            return foreign and state == StateName.ACTIVE.value
        foreign = outbox_seq is None or author == CDC_AUTHOR
    return False


def _values(session: Session, contents: ListContents, name: str) -> set[int | str]:
    known = contents.current(session, name)
    return set() if known is None else set(known.values())


def seed_documents(folder: Path, schema: TransactionSchema, limits: RuleLimits) -> Mapping[int, Sequence[bytes]]:
    """The contents of the rules in the seed files, by id. Raises InputInvalid for an unreadable file."""
    found: dict[int, list[bytes]] = {}
    for record in validate_files([folder], schema, limits) if folder.is_dir() else ():
        if isinstance(record.change, Rule):
            found.setdefault(record.change.rule_id, []).append(content_of(record.change.document))
    return found

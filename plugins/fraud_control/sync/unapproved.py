"""Finds content in force that has no approval, although four eyes is on: rules, and the lists and maps that they name.

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
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import system_author
from fraud_control.service.collections.uses import strongest_state, uses_of
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.heads import in_use
from fraud_control.service.rules.approved_content import content_of
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.database import Database
from fraud_control.store.models import ItemHead, RevisionRow
from fraud_control.sync.expiry import EXPIRY_AUTHOR
from fraud_rules.codec.rules.apply import validate_files
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.codec.rules.collections.plan import Entries
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import CollectionKind

CDC_AUTHOR: Final = system_author("cdc")
_MOST_REVISIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class UnapprovedItem:
    """A rule, or a list or map that an ACTIVE rule names, with a change of another writer. `source` is what the record
    says; `version` is the offset of a rule's record in the rule log.
    """

    item: ItemName
    source: str
    version: int | None = None

    def __str__(self) -> str:
        version = "" if self.version is None else f"version {self.version}, "
        return f"{self.item} ({version}source {self.source})"


def unapproved_rules(
    database: Database, seeds: Callable[[], Mapping[int, Sequence[bytes]]]
) -> Sequence[UnapprovedItem]:
    """The rules whose newest revision another writer wrote and no seed file has, if they are ACTIVE, or if this writer
    took them out of force. Raises Unavailable.

    `seeds` returns the contents of the seed files, see `seed_documents`.
    """
    states = [each.value for each in StateName if each.in_log]
    foreign_head = or_(ItemHead.outbox_seq.is_(None), ItemHead.updated_by == CDC_AUTHOR)
    in_log = ItemHead.kind == RULE, ItemHead.state.in_(states)
    query = select(ItemHead).where(*in_log, foreign_head).order_by(ItemHead.number)
    with database.reading() as session:
        heads = [
            each
            for each in session.scalars(query)
            if each.state == StateName.ACTIVE.value or _took_out_of_force(session, each)
        ]
    known = seeds() if heads else {}
    return [
        UnapprovedItem(each.item, each.source, each.log_version)
        for each in heads
        if content_of(document_of(each.document)) not in known.get(int(each.item_key), ())
    ]


def unapproved_collections(
    store: StoreAccess, kind: CollectionKind, seeds: Callable[[], Sequence[SeedCollection]]
) -> Sequence[UnapprovedItem]:
    """The lists or maps that ACTIVE rules name, if another writer made their newest change and no seed file has their
    content. The removal of expired values does not count as a change. Raises Unavailable.
    """
    newest = (
        select(RevisionRow.item_key, func.max(RevisionRow.revision).label("revision"))
        .where(RevisionRow.kind == kind.value, RevisionRow.author != EXPIRY_AUTHOR)
        .group_by(RevisionRow.item_key)
        .subquery()
    )
    by_another = or_(RevisionRow.outbox_seq.is_(None), RevisionRow.author == CDC_AUTHOR)
    query = (
        select(RevisionRow.item_key, RevisionRow.source)
        .join(newest, (newest.c.item_key == RevisionRow.item_key) & (newest.c.revision == RevisionRow.revision))
        .join(ItemHead, (ItemHead.kind == RevisionRow.kind) & (ItemHead.item_key == RevisionRow.item_key))
        .where(RevisionRow.part == 0, by_another, in_use(kind.value))
    )
    with store.database.reading() as session:
        foreign = session.execute(query.order_by(RevisionRow.item_key)).all()
        known = {each.name: each.entries for each in seeds()} if foreign else {}
        items = ((ItemName(kind.value, name), source) for name, source in foreign)
        return [
            UnapprovedItem(item, source)
            for item, source in items
            if strongest_state(uses_of(session, store.reader, item)) is StateName.ACTIVE
            and known.get(item.key) != _entries(session, store.contents, item)
        ]


def _took_out_of_force(session: Session, head: ItemHead) -> bool:
    """Whether the change that ended the state ACTIVE of a rule is of another writer."""
    revisions = select(RevisionRow.state, RevisionRow.outbox_seq, RevisionRow.author)
    newest_first = revisions.where(RevisionRow.concerns(head.item)).order_by(RevisionRow.revision.desc())
    foreign = False
    for state, outbox_seq, author in session.execute(newest_first.limit(_MOST_REVISIONS)):
        if state != head.state:
            return foreign and state == StateName.ACTIVE.value
        foreign = outbox_seq is None or author == CDC_AUTHOR
    return False


def _entries(session: Session, contents: CollectionContents, item: ItemName) -> Entries:
    known = contents.current(session, item)
    return {} if known is None else known.entries()


def seed_documents(folder: Path, schema: TransactionSchema, limits: RuleLimits) -> Mapping[int, Sequence[bytes]]:
    """The contents of the rules in the seed files, by id. Raises InputInvalid for an unreadable file."""
    found: dict[int, list[bytes]] = {}
    for record in validate_files([folder], schema, limits) if folder.is_dir() else ():
        if isinstance(record.change, Rule):
            found.setdefault(record.change.rule_id, []).append(content_of(record.change.document))
    return found

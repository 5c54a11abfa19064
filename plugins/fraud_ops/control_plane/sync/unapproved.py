"""Finds live rules that reached the rule log without an approval, although four eyes is on.

The control plane's own revisions pass the approval. A record of another writer does not: Kafka's ACLs decide who may
write it, and its member `source` proves nothing. Only the content of a seed file counts as approved, because the files
belong to this installation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from fraud_ops.control_plane.domain.canonical import canonical, document_of
from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.read_models import Document
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.models import RuleHead
from fraud_rules.codec.rules.apply import validate_files
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema

__all__ = ["UnapprovedRule", "seed_documents", "unapproved_rules"]

_WRITER_MEMBERS = frozenset({"source", "approve"})
"""The members that say who wrote or approved a rule. They have no effect on it."""


@dataclass(frozen=True, slots=True)
class UnapprovedRule:
    """A live rule of another writer. `source` is what the record says; `version` is its offset in the rule log."""

    rule_id: int
    source: str
    version: int | None


def unapproved_rules(
    database: Database, seeds: Callable[[], Mapping[int, Sequence[bytes]]]
) -> Sequence[UnapprovedRule]:
    """The ACTIVE rules whose newest revision another writer wrote and no seed file has. Raises Unavailable.

    `seeds` returns the contents of the seed files, see `seed_documents`.
    """
    query = select(RuleHead.rule_id, RuleHead.source, RuleHead.log_version, RuleHead.document)
    query = query.where(RuleHead.state == StateName.ACTIVE.value, RuleHead.outbox_seq.is_(None))
    with database.reading() as session:
        foreign = session.execute(query.order_by(RuleHead.rule_id)).all()
    known = seeds() if foreign else {}
    return [
        UnapprovedRule(rule_id, source, version)
        for rule_id, source, version, document in foreign
        if _content(document_of(document)) not in known.get(rule_id, ())
    ]


def seed_documents(folder: Path, schema: TransactionSchema, limits: RuleLimits) -> Mapping[int, Sequence[bytes]]:
    """The contents of the rules in the seed files, by id. Raises InputInvalid for an unreadable file."""
    found: dict[int, list[bytes]] = {}
    for record in validate_files([folder], schema, limits) if folder.is_dir() else ():
        if isinstance(record.change, Rule):
            found.setdefault(record.change.rule_id, []).append(_content(record.change.document))
    return found


def _content(document: Document | Mapping[str, object]) -> bytes:
    return canonical({name: value for name, value in document.items() if name not in _WRITER_MEMBERS})

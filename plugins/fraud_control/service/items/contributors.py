"""The contributors of an item: the users who changed its document or its values since the last approval.

With four eyes, a contributor cannot approve a change of the item, or of a rule that names the list or map.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, decoded
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.collections.uses import named_collections
from fraud_control.store.models import ApprovalRow, ItemHead, RevisionRow


def contributors_of(row: ItemHead | RevisionRow | ApprovalRow) -> frozenset[str]:
    """The users who changed the document or the values since the last approval."""
    return frozenset(decoded(row.contributors))


def encode_contributors(contributors: Iterable[str]) -> str:
    """Encode users for the column `contributors`."""
    return canonical(sorted(contributors)).decode()


def contributors_of_collections(session: Session, reader: RuleReader, document: str) -> frozenset[str]:
    """The users who changed a list or map that the rule names, since the last approval of it or of such a rule."""
    named = named_collections(session, reader, document).values()
    return frozenset(user for head in named if head is not None for user in contributors_of(head))


def record_approval(session: Session, reader: RuleReader, document: str) -> None:
    """Let the approval of a rule by a second person cover the lists and maps that the rule names."""
    for head in named_collections(session, reader, document).values():
        if head is not None:
            head.contributors = encode_contributors(())

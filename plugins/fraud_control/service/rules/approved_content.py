"""Whether the content of an active rule was approved before, by a request or as a seed file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName, is_second_person
from fraud_control.service.items.contributors import contributors_of
from fraud_control.store.models import ApprovalRow, RevisionRow

SeedContents = Callable[[], Mapping[int, Collection[bytes]]]
"""Reads the contents of the seed files, by rule id."""

_MOST_READ: Final = 1_000


@dataclass(frozen=True, slots=True)
class ApprovedContents:
    """The approved contents of a rule: how each was approved, by the content."""

    by_content: Mapping[bytes, str]

    def approval_of(self, document: str) -> str | None:
        """How the content of a document was approved: an approval with its user, or a seed file; None if it was not."""
        return self.by_content.get(_active(document_of(document)))

    def covers(self, document: Mapping[str, Any]) -> bool:
        """Whether the content of a document was approved."""
        return _active(document) in self.by_content


def no_seeds() -> Mapping[int, Collection[bytes]]:
    """The contents of an installation without seed files."""
    return {}


def content_of(document: Mapping[str, Any]) -> bytes:
    """The content of a rule as canonical JSON, with its state but without its writer."""
    return canonical({name: value for name, value in document.items() if name != "source"})


def _active(document: Mapping[str, Any]) -> bytes:
    """The content of a rule as an active one. Revisions and requests have the state of their time."""
    return content_of({**document, "ruleState": StateName.ACTIVE.value})


def approved_contents(session: Session, rule_id: int, seeds: SeedContents) -> ApprovedContents:
    """Read the approved contents of a rule. The approvals of a deleted rule do not cover a later one with its number.

    An approval by a contributor, given while four eyes was off, does not count.
    """
    item = ItemName.of_rule(rule_id)
    deleted = session.scalar(
        select(func.max(RevisionRow.revision)).where(
            RevisionRow.concerns(item), RevisionRow.state == StateName.DELETE.value
        )
    )
    wanted = (
        ApprovalRow.concerns(item),
        ApprovalRow.decision == "approved",
        ApprovalRow.target.is_(None) | (ApprovalRow.target == StateName.ACTIVE.value),
        ApprovalRow.revision > (deleted or 0),
    )
    found: Sequence[ApprovalRow] = session.scalars(
        select(ApprovalRow).where(*wanted).order_by(ApprovalRow.id.desc()).limit(_MOST_READ)
    ).all()
    approved = dict.fromkeys(seeds().get(rule_id, ()), "a seed file")
    for row in reversed(found):
        if is_second_person(row.decided_by or "", row.requested_by, contributors_of(row)):
            approved[_active(document_of(row.document))] = f"approval {row.id} by {row.decided_by}"
    return ApprovedContents(approved)

"""The contributors of a rule or list: the users who changed its document or its values since the last approval.

With four eyes, a contributor cannot approve a change of the rule, or of a rule that names the list.
"""

from __future__ import annotations

from collections.abc import Iterable

from fraud_control.domain.canonical import canonical, decoded
from fraud_control.store.models import ApprovalRow, ListHead, RevisionRow, RuleHead

__all__ = ["contributors_of", "encode_contributors"]


def contributors_of(row: RuleHead | RevisionRow | ApprovalRow | ListHead) -> frozenset[str]:
    """The users who changed the document or the values since the last approval."""
    return frozenset(decoded(row.contributors))


def encode_contributors(contributors: Iterable[str]) -> str:
    """Encode users for the column `contributors`."""
    return canonical(sorted(contributors)).decode()

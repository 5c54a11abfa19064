"""The contributors of a rule: the users who changed its document since its last approval.

With four eyes, a contributor cannot approve a change of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from fraud_ops.control_plane.domain.canonical import canonical, decoded
from fraud_ops.control_plane.store.models import ApprovalRow, RevisionRow, RuleHead

__all__ = ["contributors_of", "encode_contributors"]


def contributors_of(row: RuleHead | RevisionRow | ApprovalRow) -> frozenset[str]:
    """The users who changed the document since its last approval."""
    return frozenset(decoded(row.contributors))


def encode_contributors(contributors: Iterable[str]) -> str:
    """Encode users for the column `contributors`."""
    return canonical(sorted(contributors)).decode()

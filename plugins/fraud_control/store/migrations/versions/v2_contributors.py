"""Adds the users who changed a rule's document since its last approval: four eyes refuse their approval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None

_REVISIONS = "SELECT rule_id, revision, state, author, content_author, at_ms FROM revisions ORDER BY rule_id, revision"
_APPROVED = "SELECT rule_id, decided_by, decided_at_ms, requested_by FROM approvals WHERE decision = 'approved'"


def upgrade() -> None:
    """Add the columns, and fill them from the revisions and the approvals."""
    for table in ("rules", "revisions", "approvals"):
        op.add_column(table, sa.Column("contributors", sa.Text(), nullable=False, server_default="[]"))
    contributors = _contributors_of_revisions()
    for table in ("rules", "revisions"):
        _fill(table, contributors)
    for row in _rows("SELECT id, rule_id, revision, author FROM approvals"):
        users = {*contributors.get((row.rule_id, row.revision), ()), row.author}
        statement = sa.text("UPDATE approvals SET contributors = :contributors WHERE id = :id")
        op.get_bind().execute(statement, {"id": row.id, "contributors": json.dumps(sorted(users))})


def _contributors_of_revisions() -> Mapping[tuple[int, int], set[str]]:
    """The contributors of each revision. The approval of a second person and a deletion leave only the next author."""
    found: dict[tuple[int, int], set[str]] = {}
    requesters = _requesters()
    rule_id, contributors = None, set[str]()
    for row in _rows(_REVISIONS):
        contributors = contributors | {row.content_author} if row.rule_id == rule_id else {row.content_author}
        requester = requesters.get((row.rule_id, row.author, row.at_ms))
        if requester not in (None, row.author) and row.author not in contributors:
            contributors = {row.content_author}
        found[row.rule_id, row.revision] = contributors
        rule_id = None if row.state == "DELETE" else row.rule_id
    return found


def _requesters() -> Mapping[tuple[int, str, int], str]:
    """The user who requested each approved change, by rule, approver and time of the approval."""
    return {(row.rule_id, row.decided_by, row.decided_at_ms): row.requested_by for row in _rows(_APPROVED)}


def _fill(table: str, contributors: Mapping[tuple[int, int], set[str]]) -> None:
    columns = sa.table(table, *map(sa.column, ("rule_id", "revision", "contributors")))
    for (rule_id, revision_number), users in contributors.items():
        row = (columns.c.rule_id == rule_id) & (columns.c.revision == revision_number)
        op.execute(columns.update().where(row).values(contributors=json.dumps(sorted(users))))


def _rows(query: str) -> list[Any]:
    return list(op.get_bind().execute(sa.text(query)))

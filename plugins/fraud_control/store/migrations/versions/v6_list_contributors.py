"""Adds the users who changed a list since its last approval, and the list that a row of the audit log is about."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"
branch_labels = None
depends_on = None

_AUTHORS = "SELECT DISTINCT name, content_author FROM list_changes ORDER BY name, content_author"


def upgrade() -> None:
    """Add the columns. Every user who has changed a list counts, because the store does not say which values were
    approved.
    """
    op.add_column("lists", sa.Column("contributors", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("audit", sa.Column("list_name", sa.String(length=63), nullable=True))
    op.create_index(op.f("ix_audit_list_name"), "audit", ["list_name"], unique=False)
    lists = sa.table("lists", sa.column("name"), sa.column("contributors"))
    users: dict[str, list[str]] = {}
    for name, author in op.get_bind().execute(sa.text(_AUTHORS)):
        users.setdefault(name, []).append(author)
    for name, authors in users.items():
        op.execute(lists.update().where(lists.c.name == name).values(contributors=json.dumps(authors)))

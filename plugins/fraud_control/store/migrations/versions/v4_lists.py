"""Lists of values: their heads, changes and expiries; requests for approval and outbox records that concern a list."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of lists, and extend the outbox and the approvals."""
    _lists()
    _list_changes()
    _list_expiries()
    op.add_column("outbox", sa.Column("list_name", sa.String(length=63), nullable=True))
    _approvals()


def _lists() -> None:
    op.create_table(
        "lists",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("type", sa.String(length=8), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.String(length=256), nullable=False),
        sa.Column("outbox_seq", sa.BigInteger(), nullable=True),
        sa.Column("log_version", sa.BigInteger(), nullable=True),
        sa.Column("approval_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lists")),
    )
    op.create_index(op.f("ix_lists_outbox_seq"), "lists", ["outbox_seq"], unique=False)


def _list_changes() -> None:
    op.create_table(
        "list_changes",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("operation", sa.String(length=8), nullable=False),
        sa.Column("record_operation", sa.String(length=8), nullable=False),
        sa.Column("type", sa.String(length=8), nullable=False),
        sa.Column("encoded", sa.LargeBinary(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=256), nullable=False),
        sa.Column("content_author", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("outbox_seq", sa.BigInteger(), nullable=True),
        sa.Column("log_version", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", "revision", "part", name=op.f("pk_list_changes")),
    )
    op.create_index("ix_list_changes_order", "list_changes", ["name", "log_version"], unique=False)
    op.create_index(op.f("ix_list_changes_outbox_seq"), "list_changes", ["outbox_seq"], unique=False)


def _list_expiries() -> None:
    op.create_table(
        "list_expiries",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "value", name=op.f("pk_list_expiries")),
    )
    op.create_index(op.f("ix_list_expiries_at_ms"), "list_expiries", ["at_ms"], unique=False)


def _approvals() -> None:
    """Let an approval concern a list instead of a rule. SQLite cannot change a column, so its table is copied, without
    the partial index.
    """
    op.drop_index("ix_approvals_open", "approvals")
    with op.batch_alter_table("approvals") as table:
        table.add_column(sa.Column("list_name", sa.String(length=63), nullable=True))
        table.add_column(sa.Column("payload", sa.Text(), nullable=True))
        table.alter_column("rule_id", existing_type=sa.BigInteger(), nullable=True)
    op.create_index(
        "ix_approvals_open",
        "approvals",
        ["id"],
        unique=False,
        sqlite_where=sa.text("decision IS NULL"),
        postgresql_where=sa.text("decision IS NULL"),
    )

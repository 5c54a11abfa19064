"""Tokens for programs, and the program of a row of the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "18"
down_revision = "17"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and extend the audit log. Earlier rows have no program."""
    op.create_table(
        "program_tokens",
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_program_tokens")),
    )
    op.create_index(op.f("ix_program_tokens_digest"), "program_tokens", ["digest"], unique=True)
    op.create_index(op.f("ix_program_tokens_owner"), "program_tokens", ["owner"], unique=False)
    op.add_column("audit", sa.Column("program", sa.String(length=63), nullable=True))

"""Requests that clients named by an Idempotency-Key, with their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "13"
down_revision = "12"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "submissions",
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("request_key", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("who", "request_key", name=op.f("pk_submissions")),
    )
    op.create_index(op.f("ix_submissions_at_ms"), "submissions", ["at_ms"], unique=False)
    op.create_index("ix_submissions_time", "submissions", ["who", "at_ms"], unique=False)

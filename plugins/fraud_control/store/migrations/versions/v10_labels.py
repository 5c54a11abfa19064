"""Labels of transactions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "10"
down_revision = "9"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "labels",
        sa.Column("transaction_id", sa.String(length=256), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("author", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("transaction_id", name=op.f("pk_labels")),
    )
    op.create_index(op.f("ix_labels_at_ms"), "labels", ["at_ms"], unique=False)

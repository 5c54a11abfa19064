"""Leaderships as rows with a lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "15"
down_revision = "14"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "leaderships",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leaderships")),
    )

"""The accounts of users: issuer and id identify a user, and the name is for display."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "16"
down_revision = "15"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table. Rows by name belong to the first account that logs in with this name."""
    op.create_table(
        "accounts",
        sa.Column("account_key", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_key", name=op.f("pk_accounts")),
    )
    op.create_index(op.f("ix_accounts_user_name"), "accounts", ["user_name"], unique=True)

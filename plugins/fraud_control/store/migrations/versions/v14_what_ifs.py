"""What-ifs, which any API server can answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "14"
down_revision = "13"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "what_ifs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=True),
        sa.Column("question", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("said", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_what_ifs")),
    )
    op.create_index(op.f("ix_what_ifs_id"), "what_ifs", ["id"], unique=True)
    op.create_index(op.f("ix_what_ifs_status"), "what_ifs", ["status"], unique=False)

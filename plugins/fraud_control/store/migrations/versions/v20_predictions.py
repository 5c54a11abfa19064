"""The prediction of a request for approval."""

from __future__ import annotations

from alembic import op

revision = "20"
down_revision = "19"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE approvals ADD COLUMN prediction TEXT")

"""The user who handed a case over to its assignee."""

from __future__ import annotations

from alembic import op

revision = "22"
down_revision = "21"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE cases ADD COLUMN handed_by VARCHAR(256)")

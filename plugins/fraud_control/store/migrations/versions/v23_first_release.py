"""The tables of the first release. The number continues those of unreleased tables."""

from __future__ import annotations

revision = "23"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing: `store.tables` creates the tables."""

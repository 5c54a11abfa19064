"""The basis of requests for approval: the revisions that they were made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "12"
down_revision = "11"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Open requests have no basis, so they must be made again."""
    op.add_column("approvals", sa.Column("basis", sa.Text(), nullable=True))

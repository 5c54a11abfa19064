"""An index for the order of amounts that also holds the columns of common filters, and indexes of the audit log."""

from __future__ import annotations

from alembic import op

revision = "11"
down_revision = "10"
branch_labels = None
depends_on = None

_COLUMNS = ["amount", "append_ms", "source", "record_offset", "severity_rank", "rule_id", "shadow"]


def upgrade() -> None:
    """Replace the index of amounts, and add the indexes."""
    op.drop_index("ix_alerts_amount", "alerts")
    op.create_index("ix_alerts_amount", "alerts", _COLUMNS, unique=False)
    op.create_index(op.f("ix_audit_at_ms"), "audit", ["at_ms"], unique=False)
    op.create_index(op.f("ix_audit_who"), "audit", ["who"], unique=False)

"""Indexes for the reads of a full store: the pages Audit, Quality and Rules."""

from __future__ import annotations

from alembic import op

revision = "17"
down_revision = "16"
branch_labels = None
depends_on = None

_NEW = {
    "ix_audit_time": ("audit", ["at_ms", "seq"]),
    "ix_audit_user": ("audit", ["who", "seq"]),
    "ix_audit_rule": ("audit", ["rule_id", "seq"]),
    "ix_audit_list": ("audit", ["list_name", "seq"]),
    "ix_audit_action": ("audit", ["action", "seq"]),
    "ix_marks_rule": ("marks", ["rule_id", "verdict", "rule_version"]),
    "ix_marks_verdict": ("marks", ["verdict", "at_ms"]),
    "ix_labels_verdict": ("labels", ["source", "verdict", "at_ms"]),
}
_OLD = {
    "ix_audit_at_ms": "audit",
    "ix_audit_who": "audit",
    "ix_audit_rule_id": "audit",
    "ix_audit_list_name": "audit",
    "ix_marks_rule_id": "marks",
}


def upgrade() -> None:
    """Replace the indexes. A release without these works with them."""
    for name, (table, columns) in _NEW.items():
        op.create_index(name, table, columns, unique=False)
    for name, table in _OLD.items():
        op.drop_index(name, table_name=table)

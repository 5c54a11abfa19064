"""Refuses to replace rows of the audit log. On SQLite, INSERT OR REPLACE deletes a row without its delete trigger."""

from __future__ import annotations

from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None

_SQLITE = """
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
"""


def upgrade() -> None:
    """Add the trigger. Postgres has no such statement: its ON CONFLICT fires the update trigger."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_SQLITE)

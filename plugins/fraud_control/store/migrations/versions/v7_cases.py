"""Cases: the live alerts of one entity. The alerts of the index get the cases that they would have got on arrival."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"
branch_labels = None
depends_on = None

_BINARY_TEXT = sa.String(length=256).with_variant(sa.String(length=256, collation="C"), "postgresql")
_INDEXES = {
    "ix_cases_urgency": ["closed", "urgency", "case_id"],
    "ix_cases_newest": ["closed", "last_alert_ms", "case_id"],
    "ix_cases_assignee": ["assignee", "closed", "urgency", "case_id"],
    "ix_cases_entity": ["entity_value", "entity_field", "case_id"],
}
# An entity whose alerts are all marked has no case, because its alerts need no more work.
_OPEN_CASES = """
    INSERT INTO cases (entity_field, entity_value, open_entity, status, closed, urgency, alerts,
        first_alert_ms, last_alert_ms, revision)
    SELECT entity_field, entity_value, entity_field || ':' || entity_value, 'OPEN', :closed, 4 - MAX(severity_rank),
        COUNT(*), MIN(append_ms), MAX(append_ms), 1
    FROM alerts LEFT JOIN marks ON marks.alert_id = alerts.alert_id
    WHERE entity_value IS NOT NULL AND shadow = :shadow
    GROUP BY entity_field, entity_value
    HAVING COUNT(*) > COUNT(marks.alert_id)
    ORDER BY MIN(append_ms)
"""
_JOIN_CASES = """
    UPDATE alerts SET case_id = (
        SELECT cases.case_id FROM cases
        WHERE cases.entity_value = alerts.entity_value AND cases.entity_field = alerts.entity_field
    )
    WHERE shadow = :shadow AND entity_value IS NOT NULL
"""


def upgrade() -> None:
    """Create the tables, and cases for the alerts of the index."""
    _create_cases()
    _create_events()
    op.add_column("alerts", sa.Column("case_id", sa.Integer(), nullable=True))
    flags = {"closed": False, "shadow": False}
    op.execute(sa.text(_OPEN_CASES).bindparams(**flags))
    op.execute(sa.text(_JOIN_CASES).bindparams(shadow=False))
    op.drop_index("ix_alerts_entity", table_name="alerts")
    op.drop_column("alerts", "entity_field")
    op.drop_column("alerts", "entity_value")
    op.create_index("ix_alerts_case", "alerts", ["case_id", "append_ms", "source", "record_offset"], unique=False)


def _create_cases() -> None:
    op.create_table(
        "cases",
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("entity_field", sa.String(length=64), nullable=False),
        sa.Column("entity_value", _BINARY_TEXT, nullable=False),
        sa.Column("open_entity", sa.String(length=321), nullable=True),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("assignee", sa.String(length=256), nullable=True),
        sa.Column("urgency", sa.SmallInteger(), nullable=False),
        sa.Column("alerts", sa.BigInteger(), nullable=False),
        sa.Column("first_alert_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_alert_ms", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_by", sa.String(length=256), nullable=True),
        sa.PrimaryKeyConstraint("case_id", name=op.f("pk_cases")),
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "cases", columns, unique=False)
    op.create_index("ix_cases_open_entity", "cases", ["open_entity"], unique=True)


def _create_events() -> None:
    op.create_table(
        "case_events",
        sa.Column("event_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_case_events")),
    )
    op.create_index("ix_case_events_case", "case_events", ["case_id", "event_id"], unique=False)

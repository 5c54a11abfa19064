"""The alert index, and the searches that users saved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"
branch_labels = None
depends_on = None

_BINARY_TEXT = sa.String(length=256).with_variant(sa.String(length=256, collation="C"), "postgresql")
_INDEXES = {
    "ix_alerts_time": ["append_ms", "source", "record_offset"],
    "ix_alerts_rule": ["rule_id", "append_ms"],
    "ix_alerts_severity": ["severity_rank", "append_ms"],
    "ix_alerts_amount": ["amount", "append_ms"],
    "ix_alerts_entity": ["entity_value", "entity_field", "append_ms"],
}


def upgrade() -> None:
    """Create the tables."""
    _alerts()
    _alert_values()
    op.create_table(
        "saved_searches",
        sa.Column("user_name", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_name", "name", name=op.f("pk_saved_searches")),
    )


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.String(length=64), nullable=False),
        sa.Column("append_ms", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.SmallInteger(), nullable=False),
        sa.Column("record_offset", sa.BigInteger(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("severity_rank", sa.SmallInteger(), nullable=False),
        sa.Column("amount", sa.Float(), nullable=True),
        sa.Column("shadow", sa.Boolean(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("entity_field", sa.String(length=64), nullable=True),
        sa.Column("entity_value", sa.String(length=256), nullable=True),
        sa.Column("correction", sa.String(length=16), nullable=True),
        sa.Column("corrected_ms", sa.BigInteger(), nullable=True),
        sa.Column("json", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id", name=op.f("pk_alerts")),
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "alerts", columns, unique=False)


def _alert_values() -> None:
    op.create_table(
        "alert_values",
        sa.Column("alert_id", sa.String(length=64), nullable=False),
        sa.Column("field", sa.String(length=64), nullable=False),
        sa.Column("value", _BINARY_TEXT, nullable=False),
        sa.Column("in_key", sa.Boolean(), nullable=False),
        sa.Column("append_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id", "field", name=op.f("pk_alert_values")),
    )
    op.create_index("ix_alert_values_value", "alert_values", ["value", "field", "append_ms", "alert_id"], unique=False)

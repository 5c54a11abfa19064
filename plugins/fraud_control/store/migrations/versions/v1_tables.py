"""The first version of the tables, with triggers that make the audit log append-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None
branch_labels = None
depends_on = None

_SAID = "the audit log is append-only"
_SQLITE = """
CREATE TRIGGER audit_no_{what} BEFORE {what} ON audit BEGIN SELECT RAISE(ABORT, '{said}'); END
"""
_POSTGRES_FUNCTION = """
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{said}'; END $$
"""
_POSTGRES_TRIGGER = """
CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION audit_refuses()
"""


def upgrade() -> None:
    """Create all tables and triggers."""
    for table in (_facts, _rules, _revisions, _approvals, _audit, _outbox, _marks, _snoozes, _bindings, _positions):
        table()
    if op.get_bind().dialect.name == "sqlite":
        for what in ("update", "delete"):
            op.execute(_SQLITE.format(what=what, said=_SAID))
    else:
        op.execute(_POSTGRES_FUNCTION.format(said=_SAID))
        op.execute(_POSTGRES_TRIGGER)


def _facts() -> None:
    op.create_table(
        "facts",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_facts")),
    )


def _rules() -> None:
    op.create_table(
        "rules",
        sa.Column("rule_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("last_revision", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=256), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.String(length=256), nullable=False),
        sa.Column("outbox_seq", sa.BigInteger(), nullable=True),
        sa.Column("log_version", sa.BigInteger(), nullable=True),
        sa.Column("approval_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("rule_id", name=op.f("pk_rules")),
    )
    op.create_index(op.f("ix_rules_outbox_seq"), "rules", ["outbox_seq"], unique=False)
    op.create_index(op.f("ix_rules_state"), "rules", ["state"], unique=False)


def _revisions() -> None:
    op.create_table(
        "revisions",
        sa.Column("rule_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=256), nullable=False),
        sa.Column("content_author", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("outbox_seq", sa.BigInteger(), nullable=True),
        sa.Column("log_version", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("rule_id", "revision", name=op.f("pk_revisions")),
    )
    op.create_index(op.f("ix_revisions_outbox_seq"), "revisions", ["outbox_seq"], unique=False)


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=8), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("author", sa.String(length=256), nullable=False),
        sa.Column("requested_by", sa.String(length=256), nullable=False),
        sa.Column("requested_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=True),
        sa.Column("decided_by", sa.String(length=256), nullable=True),
        sa.Column("decided_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("decision_comment", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["rule_id"], ["rules.rule_id"], name=op.f("fk_approvals_rules")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    op.create_index(
        "ix_approvals_open",
        "approvals",
        ["id"],
        unique=False,
        sqlite_where=sa.text("decision IS NULL"),
        postgresql_where=sa.text("decision IS NULL"),
    )
    op.create_index(op.f("ix_approvals_rule_id"), "approvals", ["rule_id"], unique=False)


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=True),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_rule_id"), "audit", ["rule_id"], unique=False)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("wipes", sa.Boolean(), nullable=False),
        sa.Column("audit", sa.String(length=96), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("log_version", sa.BigInteger(), nullable=True),
        sa.Column("published_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_rule_id"), "outbox", ["rule_id"], unique=False)
    op.create_index(
        "ix_outbox_waiting",
        "outbox",
        ["seq"],
        unique=False,
        sqlite_where=sa.text("log_version IS NULL"),
        postgresql_where=sa.text("log_version IS NULL"),
    )
    op.create_index(op.f("ix_outbox_wipes"), "outbox", ["wipes"], unique=False)


def _marks() -> None:
    op.create_table(
        "marks",
        sa.Column("alert_id", sa.String(length=64), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("rule_version", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id", name=op.f("pk_marks")),
    )
    op.create_index(op.f("ix_marks_rule_id"), "marks", ["rule_id"], unique=False)


def _snoozes() -> None:
    op.create_table(
        "snoozes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=256), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snoozes")),
    )
    op.create_index(op.f("ix_snoozes_rule_id"), "snoozes", ["rule_id"], unique=False)
    op.create_index(op.f("ix_snoozes_until_ms"), "snoozes", ["until_ms"], unique=False)


def _bindings() -> None:
    op.create_table(
        "bindings",
        sa.Column("user_name", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=True),
        sa.Column("bound_by", sa.String(length=256), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_name", name=op.f("pk_bindings")),
    )


def _positions() -> None:
    op.create_table(
        "positions",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("topic_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_positions")),
    )

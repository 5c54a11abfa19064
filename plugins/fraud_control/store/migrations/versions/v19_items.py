"""One family of tables for the governed items of all kinds: heads, revisions and expiries by kind and key. Requests for
approval, the outbox and the audit log name their item in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "19"
down_revision = "18"
branch_labels = None
depends_on = None

_USER = sa.String(length=256)
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "kind": sa.String(length=8),
    "item_key": sa.String(length=63),
    "state": sa.String(length=8),
    "operation": sa.String(length=8),
    "type": sa.String(length=32),
    "source": sa.String(length=32),
    **dict.fromkeys(["author", "content_author", "updated_by"], _USER),
    **dict.fromkeys(["number", "revision", "last_revision", "part", "at_ms", "updated_at_ms"], sa.BigInteger()),
    "outbox_seq": sa.BigInteger(),
    "log_version": sa.BigInteger(),
    "approval_id": sa.Integer(),
    "payload": sa.LargeBinary(),
}
"""The types of columns that are not Text."""

_NULLABLE = frozenset({"number", "payload", "outbox_seq", "log_version", "approval_id"})
_HEAD = "contributors, updated_at_ms, updated_by, outbox_seq, log_version, approval_id"
_ITEMS = f"kind, item_key, number, state, document, search, author, revision, last_revision, source, {_HEAD}"
_CHANGE = "source, author, content_author, at_ms, comment, outbox_seq, log_version"
_REVISIONS = f"kind, item_key, revision, part, state, document, operation, type, contributors, {_CHANGE}, payload"
_EXPIRIES = "kind, item_key, value, at_ms"
_TABLES = {
    "items": (_ITEMS, ("kind", "item_key")),
    "item_revisions": (_REVISIONS, ("kind", "item_key", "revision", "part")),
    "item_expiries": (_EXPIRIES, ("kind", "item_key", "value")),
}
"""The columns and the primary key of each table."""

_RULES = """
INSERT INTO items ({items}) SELECT 'rule', CAST(rule_id AS VARCHAR(63)), rule_id, state, document, search, author,
    revision, last_revision, source, {head} FROM rules
"""
_LISTS = """
INSERT INTO items ({items}) SELECT 'list', name, NULL, CASE WHEN deleted THEN 'DELETE' ELSE 'ACTIVE' END,
    '{{"type":"' || type || '","size":' || CAST(size AS VARCHAR(20)) || '}}', name, COALESCE((SELECT content_author
    FROM list_changes WHERE list_changes.name = lists.name ORDER BY list_changes.revision DESC LIMIT 1), updated_by),
    revision, revision, source, {head} FROM lists
"""
_RULE_REVISIONS = """
INSERT INTO item_revisions ({revisions}) SELECT 'rule', CAST(rule_id AS VARCHAR(63)), revision, 0, state, document, '',
    '', contributors, {change}, NULL FROM revisions
"""
_LIST_CHANGES = """
INSERT INTO item_revisions ({revisions}) SELECT 'list', name, revision, part,
    CASE WHEN operation = 'DELETE' THEN 'DELETE' ELSE 'ACTIVE' END,
    '{{"operation":"' || operation || '","added":' || CAST(added AS VARCHAR(20)) || ',"removed":'
        || CAST(removed AS VARCHAR(20)) || CASE WHEN expires_at_ms IS NULL THEN ''
        ELSE ',"expiresAt":' || CAST(expires_at_ms AS VARCHAR(20)) END || '}}',
    record_operation, type, '[]', {change}, encoded FROM list_changes
"""
_LIST_EXPIRIES = "INSERT INTO item_expiries ({expiries}) SELECT 'list', name, value, at_ms FROM list_expiries"
_NAMES = (
    "UPDATE {} SET kind = 'rule', item_key = CAST(rule_id AS VARCHAR(63)) WHERE rule_id IS NOT NULL",
    "UPDATE {} SET kind = 'list', item_key = list_name WHERE list_name IS NOT NULL",
)
_INDEXES = {
    "ix_items_state": ("items", ["kind", "state"]),
    "ix_items_number": ("items", ["kind", "number"]),
    "ix_items_outbox_seq": ("items", ["outbox_seq"]),
    "ix_item_revisions_order": ("item_revisions", ["kind", "item_key", "log_version"]),
    "ix_item_revisions_outbox_seq": ("item_revisions", ["outbox_seq"]),
    "ix_item_expiries_at_ms": ("item_expiries", ["at_ms"]),
    "ix_outbox_item": ("outbox", ["kind", "item_key"]),
    "ix_audit_item": ("audit", ["kind", "item_key", "seq"]),
    "ix_approvals_item": ("approvals", ["kind", "item_key"]),
}
_SQLITE_TRIGGER = """
CREATE TRIGGER audit_no_update BEFORE update ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
"""


def upgrade() -> None:
    """Create the tables and copy all rows. The hashes of the audit log do not cover the names of columns."""
    for name, (names, key) in _TABLES.items():
        constraint = sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{name}"))
        op.create_table(name, *map(_column, names.split(", ")), constraint)
    columns = {"items": _ITEMS, "revisions": _REVISIONS, "expiries": _EXPIRIES, "head": _HEAD, "change": _CHANGE}
    for copy in (_RULES, _LISTS, _RULE_REVISIONS, _LIST_CHANGES, _LIST_EXPIRIES):
        op.get_bind().exec_driver_sql(copy.format(**columns))
    _name_items("outbox", "ix_outbox_rule_id")
    _audit()
    _approvals()
    for table in ("rules", "lists", "revisions", "list_changes", "list_expiries"):
        op.drop_table(table)
    for name, (table, indexed) in _INDEXES.items():
        op.create_index(name, table, indexed, unique=False)


def _column(name: str) -> sa.Column[Any]:
    return sa.Column(name, _TYPES.get(name, sa.Text()), autoincrement=False, nullable=name in _NULLABLE)


def _audit() -> None:
    """The triggers refuse an update, so they pause in this transaction."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute("DROP TRIGGER audit_no_update" if sqlite else "ALTER TABLE audit DISABLE TRIGGER audit_no_change")
    _name_items("audit", "ix_audit_rule", "ix_audit_list")
    op.execute(_SQLITE_TRIGGER if sqlite else "ALTER TABLE audit ENABLE TRIGGER audit_no_change")


def _approvals() -> None:
    """SQLite cannot change a constraint, so its table is copied, without the partial index."""
    of_open = sa.text("decision IS NULL")
    op.drop_index("ix_approvals_open", "approvals")
    with op.batch_alter_table("approvals") as table:
        table.drop_constraint("fk_approvals_rules", type_="foreignkey")
    _name_items("approvals", "ix_approvals_rule_id")
    with op.batch_alter_table("approvals") as table:
        table.create_foreign_key("fk_approvals_items", "items", ["kind", "item_key"], ["kind", "item_key"])
    op.create_index("ix_approvals_open", "approvals", ["id"], sqlite_where=of_open, postgresql_where=of_open)


def _name_items(table: str, *indexes: str) -> None:
    """Replace the columns for rules and lists by the name of the item, which is empty in a row about none."""
    for name in ("kind", "item_key"):
        op.add_column(table, sa.Column(name, _TYPES[name], nullable=False, server_default=""))
    for statement in _NAMES:
        op.execute(statement.format(table))
    for index in indexes:
        op.drop_index(index, table)
    for name in ("rule_id", "list_name"):
        op.drop_column(table, name)

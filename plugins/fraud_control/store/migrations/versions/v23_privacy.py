"""The keys of pseudonyms, and the anchors of the audit log, which permit the deletion of the rows up to them."""

from __future__ import annotations

from alembic import op

revision = "23"
down_revision = "22"
branch_labels = None
depends_on = None

_TABLES = """
CREATE TABLE pseudonyms (value VARCHAR(256) NOT NULL, secret {bytes} NOT NULL,
    CONSTRAINT pk_pseudonyms PRIMARY KEY (value));
CREATE TABLE audit_anchors (seq BIGINT NOT NULL, hash VARCHAR(64) NOT NULL, at_ms BIGINT NOT NULL,
    CONSTRAINT pk_audit_anchors PRIMARY KEY (seq));
"""
_BYTES = {"sqlite": "BLOB", "postgresql": "BYTEA"}
_TRIGGERS = {
    "sqlite": (
        "DROP TRIGGER audit_no_delete",
        """CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
            WHEN OLD.seq > COALESCE((SELECT MAX(seq) FROM audit_anchors), 0)
            BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
    ),
    "postgresql": (
        "DROP TRIGGER audit_no_change ON audit",
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR TRUNCATE ON audit EXECUTE FUNCTION audit_refuses()",
        """CREATE FUNCTION audit_refuses_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF OLD.seq > COALESCE((SELECT MAX(seq) FROM audit_anchors), 0) THEN
                RAISE EXCEPTION 'the audit log is append-only';
            END IF;
            RETURN OLD;
        END $$""",
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuses_row()",
    ),
}


def upgrade() -> None:
    """Create the tables, and replace the trigger of deletions."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    for statement in (*_TABLES.format(bytes=_BYTES[dialect]).split(";")[:-1], *_TRIGGERS[dialect]):
        connection.exec_driver_sql(statement)

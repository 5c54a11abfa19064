"""Creates all tables, with triggers that make the audit log append-only."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import Connection

# Each module adds its tables to the metadata.
from fraud_control.store import (
    alarm_models,  # noqa: F401
    alert_models,  # noqa: F401
    case_models,  # noqa: F401
    label_models,  # noqa: F401
    leases,  # noqa: F401
    notification_models,  # noqa: F401
    privacy_models,  # noqa: F401
    submissions,  # noqa: F401
    token_models,  # noqa: F401
    what_if_models,  # noqa: F401
)
from fraud_control.store.models import Base

_SQLITE: Final = """
CREATE TRIGGER audit_no_{name} BEFORE {event} BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
"""
_SQLITE_EVENTS: Final = {
    "update": "UPDATE ON audit",
    "delete": "DELETE ON audit WHEN OLD.seq > COALESCE((SELECT MAX(seq) FROM audit_anchors), 0)",
    # INSERT OR REPLACE deletes a row without its delete trigger.
    "replace": "INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)",
}
_POSTGRES: Final = """
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_no_change BEFORE UPDATE OR TRUNCATE ON audit EXECUTE FUNCTION audit_refuses();
CREATE FUNCTION audit_refuses_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.seq > COALESCE((SELECT MAX(seq) FROM audit_anchors), 0) THEN
        RAISE EXCEPTION 'the audit log is append-only';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuses_row()
"""


def create_tables(connection: Connection) -> None:
    """Create all tables, indexes and triggers in an empty SQLite or Postgres database."""
    Base.metadata.create_all(connection)
    sqlite = [_SQLITE.format(name=name, event=event) for name, event in _SQLITE_EVENTS.items()]
    for statement in sqlite if connection.dialect.name == "sqlite" else [_POSTGRES]:
        connection.exec_driver_sql(statement)

"""The tables, with triggers that make the audit log append-only. The number continues those of unreleased tables."""

from __future__ import annotations

from alembic import op

revision = "19"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = """
CREATE TABLE accounts (account_key VARCHAR(64) NOT NULL, user_name VARCHAR(256) NOT NULL, name VARCHAR(256) NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_accounts PRIMARY KEY (account_key));
CREATE UNIQUE INDEX ix_accounts_user_name ON accounts (user_name);
CREATE TABLE alarms (id {number}, name VARCHAR(64) NOT NULL, detector TEXT NOT NULL, part TEXT NOT NULL,
    said TEXT NOT NULL, source TEXT NOT NULL, receivers TEXT NOT NULL, first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL, messages INTEGER NOT NULL, cleared_ms BIGINT, CONSTRAINT pk_alarms PRIMARY KEY (id));
CREATE INDEX ix_alarms_last_ms ON alarms (last_ms);
CREATE TABLE alert_values (alert_id VARCHAR(64) NOT NULL, field VARCHAR(64) NOT NULL, value {binary_text},
    in_key BOOLEAN NOT NULL, append_ms BIGINT NOT NULL, CONSTRAINT pk_alert_values PRIMARY KEY (alert_id, field));
CREATE INDEX ix_alert_values_value ON alert_values (value, field, append_ms, alert_id);
CREATE TABLE alerts (alert_id VARCHAR(64) NOT NULL, append_ms BIGINT NOT NULL, source SMALLINT NOT NULL,
    record_offset BIGINT NOT NULL, rule_id BIGINT NOT NULL, severity_rank SMALLINT NOT NULL, amount FLOAT,
    shadow BOOLEAN NOT NULL, "key" TEXT NOT NULL, correction VARCHAR(16), corrected_ms BIGINT, case_id INTEGER,
    json {bytes} NOT NULL, CONSTRAINT pk_alerts PRIMARY KEY (alert_id));
CREATE INDEX ix_alerts_amount ON alerts (amount, append_ms, source, record_offset, severity_rank, rule_id, shadow);
CREATE INDEX ix_alerts_case ON alerts (case_id, append_ms, source, record_offset);
CREATE INDEX ix_alerts_rule ON alerts (rule_id, append_ms);
CREATE INDEX ix_alerts_severity ON alerts (severity_rank, append_ms);
CREATE INDEX ix_alerts_time ON alerts (append_ms, source, record_offset);
CREATE TABLE audit (seq BIGINT NOT NULL, at_ms BIGINT NOT NULL, who VARCHAR(256) NOT NULL,
    action VARCHAR(32) NOT NULL, subject TEXT NOT NULL, program VARCHAR(63), "before" TEXT NOT NULL,
    "after" TEXT NOT NULL, previous_hash VARCHAR(64) NOT NULL, hash VARCHAR(64) NOT NULL, kind VARCHAR(8) NOT NULL,
    item_key VARCHAR(63) NOT NULL, CONSTRAINT pk_audit PRIMARY KEY (seq));
CREATE INDEX ix_audit_action ON audit (action, seq);
CREATE INDEX ix_audit_item ON audit (kind, item_key, seq);
CREATE INDEX ix_audit_time ON audit (at_ms, seq);
CREATE INDEX ix_audit_user ON audit (who, seq);
CREATE TABLE bindings (user_name VARCHAR(256) NOT NULL, role VARCHAR(16), bound_by VARCHAR(256) NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_bindings PRIMARY KEY (user_name));
CREATE TABLE case_events (event_id {number}, case_id INTEGER NOT NULL, at_ms BIGINT NOT NULL,
    who VARCHAR(256) NOT NULL, action VARCHAR(16) NOT NULL, detail TEXT NOT NULL, comment TEXT NOT NULL,
    CONSTRAINT pk_case_events PRIMARY KEY (event_id));
CREATE INDEX ix_case_events_case ON case_events (case_id, event_id);
CREATE TABLE cases (case_id {number}, entity_field VARCHAR(64) NOT NULL, entity_value {binary_text},
    open_entity VARCHAR(321), status VARCHAR(8) NOT NULL, closed BOOLEAN NOT NULL, outcome VARCHAR(16),
    assignee VARCHAR(256), urgency SMALLINT NOT NULL, alerts BIGINT NOT NULL, first_alert_ms BIGINT NOT NULL,
    last_alert_ms BIGINT NOT NULL, revision BIGINT NOT NULL, updated_ms BIGINT, updated_by VARCHAR(256),
    CONSTRAINT pk_cases PRIMARY KEY (case_id));
CREATE INDEX ix_cases_assignee ON cases (assignee, closed, urgency, case_id);
CREATE INDEX ix_cases_entity ON cases (entity_value, entity_field, case_id);
CREATE INDEX ix_cases_newest ON cases (closed, last_alert_ms, case_id);
CREATE UNIQUE INDEX ix_cases_open_entity ON cases (open_entity);
CREATE INDEX ix_cases_urgency ON cases (closed, urgency, case_id);
CREATE TABLE deliveries (id {number}, message_id VARCHAR(36) NOT NULL, subscription_id INTEGER,
    receiver VARCHAR(32) NOT NULL, type VARCHAR(16) NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    path TEXT NOT NULL, data TEXT NOT NULL, state VARCHAR(9) NOT NULL, attempts INTEGER NOT NULL, fault TEXT,
    created_ms BIGINT NOT NULL, due_ms BIGINT NOT NULL, ended_ms BIGINT, CONSTRAINT pk_deliveries PRIMARY KEY (id));
CREATE INDEX ix_deliveries_due ON deliveries (state, receiver, due_ms);
CREATE INDEX ix_deliveries_subscription ON deliveries (subscription_id, type, created_ms);
CREATE TABLE facts (name VARCHAR(64) NOT NULL, value TEXT NOT NULL, CONSTRAINT pk_facts PRIMARY KEY (name));
CREATE TABLE item_expiries (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, value TEXT NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_item_expiries PRIMARY KEY (kind, item_key, value));
CREATE INDEX ix_item_expiries_at_ms ON item_expiries (at_ms);
CREATE TABLE item_revisions (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, revision BIGINT NOT NULL,
    part BIGINT NOT NULL, state VARCHAR(8) NOT NULL, document TEXT NOT NULL, operation VARCHAR(8) NOT NULL,
    type VARCHAR(32) NOT NULL, payload {bytes}, source VARCHAR(32) NOT NULL, author VARCHAR(256) NOT NULL,
    content_author VARCHAR(256) NOT NULL, contributors TEXT NOT NULL, at_ms BIGINT NOT NULL, comment TEXT NOT NULL,
    outbox_seq BIGINT, log_version BIGINT, CONSTRAINT pk_item_revisions PRIMARY KEY (kind, item_key, revision, part));
CREATE INDEX ix_item_revisions_order ON item_revisions (kind, item_key, log_version);
CREATE INDEX ix_item_revisions_outbox_seq ON item_revisions (outbox_seq);
CREATE TABLE items (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, number BIGINT, state VARCHAR(8) NOT NULL,
    document TEXT NOT NULL, search TEXT NOT NULL, author VARCHAR(256) NOT NULL, revision BIGINT NOT NULL,
    last_revision BIGINT NOT NULL, source VARCHAR(32) NOT NULL, contributors TEXT NOT NULL,
    updated_at_ms BIGINT NOT NULL, updated_by VARCHAR(256) NOT NULL, outbox_seq BIGINT, log_version BIGINT,
    approval_id INTEGER, CONSTRAINT pk_items PRIMARY KEY (kind, item_key));
CREATE INDEX ix_items_number ON items (kind, number);
CREATE INDEX ix_items_outbox_seq ON items (outbox_seq);
CREATE INDEX ix_items_state ON items (kind, state);
CREATE TABLE labels (transaction_id VARCHAR(256) NOT NULL, verdict VARCHAR(16) NOT NULL, source VARCHAR(8) NOT NULL,
    author VARCHAR(256) NOT NULL, at_ms BIGINT NOT NULL, CONSTRAINT pk_labels PRIMARY KEY (transaction_id));
CREATE INDEX ix_labels_at_ms ON labels (at_ms);
CREATE INDEX ix_labels_verdict ON labels (source, verdict, at_ms);
CREATE TABLE leaderships (name VARCHAR(64) NOT NULL, holder VARCHAR(32) NOT NULL, until_ms BIGINT NOT NULL,
    CONSTRAINT pk_leaderships PRIMARY KEY (name));
CREATE TABLE marks (alert_id VARCHAR(64) NOT NULL, rule_id BIGINT NOT NULL, rule_version BIGINT NOT NULL,
    verdict VARCHAR(16) NOT NULL, who VARCHAR(256) NOT NULL, at_ms BIGINT NOT NULL,
    CONSTRAINT pk_marks PRIMARY KEY (alert_id));
CREATE INDEX ix_marks_rule ON marks (rule_id, verdict, rule_version);
CREATE INDEX ix_marks_verdict ON marks (verdict, at_ms);
CREATE TABLE outbox (seq BIGINT NOT NULL, revision BIGINT, "key" {bytes} NOT NULL, value {bytes} NOT NULL,
    wipes BOOLEAN NOT NULL, audit VARCHAR(96) NOT NULL, created_ms BIGINT NOT NULL, log_version BIGINT,
    published_ms BIGINT, kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL,
    CONSTRAINT pk_outbox PRIMARY KEY (seq));
CREATE INDEX ix_outbox_item ON outbox (kind, item_key);
CREATE INDEX ix_outbox_waiting ON outbox (seq) WHERE log_version IS NULL;
CREATE INDEX ix_outbox_wipes ON outbox (wipes);
CREATE TABLE positions (name VARCHAR(64) NOT NULL, next_offset BIGINT NOT NULL, topic_id VARCHAR(64),
    CONSTRAINT pk_positions PRIMARY KEY (name));
CREATE TABLE program_tokens (id VARCHAR(12) NOT NULL, digest VARCHAR(64) NOT NULL, owner VARCHAR(256) NOT NULL,
    name VARCHAR(63) NOT NULL, role VARCHAR(16) NOT NULL, created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL, CONSTRAINT pk_program_tokens PRIMARY KEY (id));
CREATE UNIQUE INDEX ix_program_tokens_digest ON program_tokens (digest);
CREATE INDEX ix_program_tokens_owner ON program_tokens (owner);
CREATE TABLE saved_searches (user_name VARCHAR(256) NOT NULL, name VARCHAR(80) NOT NULL, "query" TEXT NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_saved_searches PRIMARY KEY (user_name, name));
CREATE TABLE snoozes (id {number}, rule_id BIGINT NOT NULL, "key" TEXT, until_ms BIGINT NOT NULL,
    who VARCHAR(256) NOT NULL, reason TEXT NOT NULL, at_ms BIGINT NOT NULL, CONSTRAINT pk_snoozes PRIMARY KEY (id));
CREATE INDEX ix_snoozes_rule_id ON snoozes (rule_id);
CREATE INDEX ix_snoozes_until_ms ON snoozes (until_ms);
CREATE TABLE submissions (who VARCHAR(256) NOT NULL, request_key VARCHAR(128) NOT NULL, digest VARCHAR(64) NOT NULL,
    at_ms BIGINT NOT NULL, status INTEGER, headers TEXT, answer {bytes}, CONSTRAINT pk_submissions PRIMARY KEY (who,
    request_key));
CREATE INDEX ix_submissions_at_ms ON submissions (at_ms);
CREATE INDEX ix_submissions_time ON submissions (who, at_ms);
CREATE TABLE subscriptions (id {number}, terms TEXT NOT NULL, author VARCHAR(256) NOT NULL,
    created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, digest_ms BIGINT,
    CONSTRAINT pk_subscriptions PRIMARY KEY (id));
CREATE TABLE what_ifs (number {number}, id VARCHAR(12) NOT NULL, who VARCHAR(256) NOT NULL, rule_id BIGINT,
    question {bytes} NOT NULL, status VARCHAR(8) NOT NULL, at_ms BIGINT NOT NULL, result {bytes}, said TEXT,
    CONSTRAINT pk_what_ifs PRIMARY KEY (number));
CREATE UNIQUE INDEX ix_what_ifs_id ON what_ifs (id);
CREATE INDEX ix_what_ifs_status ON what_ifs (status);
CREATE TABLE approvals (id {number}, revision BIGINT NOT NULL, action VARCHAR(16) NOT NULL, target VARCHAR(8),
    document TEXT NOT NULL, payload TEXT, basis TEXT, author VARCHAR(256) NOT NULL, contributors TEXT NOT NULL,
    requested_by VARCHAR(256) NOT NULL, requested_at_ms BIGINT NOT NULL, comment TEXT NOT NULL, decision VARCHAR(16),
    decided_by VARCHAR(256), decided_at_ms BIGINT, decision_comment TEXT, kind VARCHAR(8) NOT NULL,
    item_key VARCHAR(63) NOT NULL, CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT fk_approvals_items FOREIGN KEY (kind, item_key) REFERENCES items (kind, item_key));
CREATE INDEX ix_approvals_item ON approvals (kind, item_key);
CREATE INDEX ix_approvals_open ON approvals (id) WHERE decision IS NULL;
"""
"""SQL for both databases. `_TYPES` has the parts that differ."""
_TYPES = {
    "sqlite": {"number": "INTEGER NOT NULL", "bytes": "BLOB", "binary_text": "VARCHAR(256) NOT NULL"},
    "postgresql": {"number": "SERIAL", "bytes": "BYTEA", "binary_text": 'VARCHAR(256) COLLATE "C" NOT NULL'},
}
_SQLITE = """
CREATE TRIGGER audit_no_{name} BEFORE {event} BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
"""
_SQLITE_EVENTS = {
    "update": "UPDATE ON audit",
    "delete": "DELETE ON audit",
    # INSERT OR REPLACE deletes a row without its delete trigger.
    "replace": "INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)",
}
_POSTGRES = """
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION audit_refuses()
"""


def upgrade() -> None:
    """Create all tables, indexes and triggers."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    statements = _TABLES.format(**_TYPES[dialect]).split(";")[:-1]
    if dialect == "sqlite":
        statements += [_SQLITE.format(name=name, event=event) for name, event in _SQLITE_EVENTS.items()]
    else:
        statements.append(_POSTGRES)
    for statement in statements:
        connection.exec_driver_sql(statement)

BEGIN TRANSACTION;
CREATE TABLE accounts (account_key VARCHAR(64) NOT NULL, user_name VARCHAR(256) NOT NULL, name VARCHAR(256) NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_accounts PRIMARY KEY (account_key));
CREATE TABLE alarms (id INTEGER NOT NULL, name VARCHAR(64) NOT NULL, detector TEXT NOT NULL, part TEXT NOT NULL,
    said TEXT NOT NULL, source TEXT NOT NULL, receivers TEXT NOT NULL, first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL, messages INTEGER NOT NULL, cleared_ms BIGINT, CONSTRAINT pk_alarms PRIMARY KEY (id));
CREATE TABLE alert_payments (alert_id VARCHAR(64) NOT NULL, transaction_id VARCHAR(256) NOT NULL,
    rule_id BIGINT NOT NULL, rule_version BIGINT NOT NULL, append_ms BIGINT NOT NULL, amount FLOAT,
    shadow BOOLEAN NOT NULL, in_effect BOOLEAN NOT NULL, CONSTRAINT pk_alert_payments PRIMARY KEY (alert_id));
CREATE TABLE alert_values (alert_id VARCHAR(64) NOT NULL, field VARCHAR(64) NOT NULL, value VARCHAR(256) NOT NULL,
    in_key BOOLEAN NOT NULL, append_ms BIGINT NOT NULL, CONSTRAINT pk_alert_values PRIMARY KEY (alert_id, field));
CREATE TABLE alerts (alert_id VARCHAR(64) NOT NULL, append_ms BIGINT NOT NULL, source SMALLINT NOT NULL,
    record_offset BIGINT NOT NULL, rule_id BIGINT NOT NULL, severity_rank SMALLINT NOT NULL, amount FLOAT,
    shadow BOOLEAN NOT NULL, "key" TEXT NOT NULL, correction VARCHAR(16), corrected_ms BIGINT, case_id INTEGER,
    json BLOB NOT NULL, CONSTRAINT pk_alerts PRIMARY KEY (alert_id));
CREATE TABLE approvals (id INTEGER NOT NULL, revision BIGINT NOT NULL, action VARCHAR(16) NOT NULL, target VARCHAR(8),
    document TEXT NOT NULL, payload TEXT, basis TEXT, author VARCHAR(256) NOT NULL, contributors TEXT NOT NULL,
    requested_by VARCHAR(256) NOT NULL, requested_at_ms BIGINT NOT NULL, comment TEXT NOT NULL, decision VARCHAR(16),
    decided_by VARCHAR(256), decided_at_ms BIGINT, decision_comment TEXT, kind VARCHAR(8) NOT NULL,
    item_key VARCHAR(63) NOT NULL, prediction TEXT, CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT fk_approvals_items FOREIGN KEY (kind, item_key) REFERENCES items (kind, item_key));
CREATE TABLE audit (seq BIGINT NOT NULL, at_ms BIGINT NOT NULL, who VARCHAR(256) NOT NULL,
    action VARCHAR(32) NOT NULL, subject TEXT NOT NULL, program VARCHAR(63), "before" TEXT NOT NULL,
    "after" TEXT NOT NULL, previous_hash VARCHAR(64) NOT NULL, hash VARCHAR(64) NOT NULL, kind VARCHAR(8) NOT NULL,
    item_key VARCHAR(63) NOT NULL, CONSTRAINT pk_audit PRIMARY KEY (seq));
INSERT INTO "audit" VALUES(1,1700000000000,'ann','rule.create','rule 1',NULL,'null','{"document":{"aggregateFieldName":"paymentAmount","aggregatorFunctionType":"SUM","groupingKeyNames":["payeeId","beneficiaryId"],"limit":20,"limitOperatorType":">","name":"a rule of this release","ruleId":1,"ruleState":"SHADOW","source":"ui","windowMinutes":20},"revision":1,"state":"DRAFT"}','0000000000000000000000000000000000000000000000000000000000000000','69a46bc54049b5f3254965b232ef40a96c8954d7fb94c6559c940e8d9a6eae41','rule','1');
CREATE TABLE audit_anchors (seq BIGINT NOT NULL, hash VARCHAR(64) NOT NULL, at_ms BIGINT NOT NULL,
    CONSTRAINT pk_audit_anchors PRIMARY KEY (seq));
CREATE TABLE bindings (user_name VARCHAR(256) NOT NULL, role VARCHAR(16), bound_by VARCHAR(256) NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_bindings PRIMARY KEY (user_name));
CREATE TABLE case_events (event_id INTEGER NOT NULL, case_id INTEGER NOT NULL, at_ms BIGINT NOT NULL,
    who VARCHAR(256) NOT NULL, action VARCHAR(16) NOT NULL, detail TEXT NOT NULL, comment TEXT NOT NULL,
    CONSTRAINT pk_case_events PRIMARY KEY (event_id));
CREATE TABLE cases (case_id INTEGER NOT NULL, entity_field VARCHAR(64) NOT NULL, entity_value VARCHAR(256) NOT NULL,
    open_entity VARCHAR(321), status VARCHAR(8) NOT NULL, closed BOOLEAN NOT NULL, outcome VARCHAR(16),
    assignee VARCHAR(256), urgency SMALLINT NOT NULL, alerts BIGINT NOT NULL, first_alert_ms BIGINT NOT NULL,
    last_alert_ms BIGINT NOT NULL, revision BIGINT NOT NULL, updated_ms BIGINT, updated_by VARCHAR(256), handed_by VARCHAR(256),
    CONSTRAINT pk_cases PRIMARY KEY (case_id));
CREATE TABLE deliveries (id INTEGER NOT NULL, message_id VARCHAR(36) NOT NULL, subscription_id INTEGER,
    receiver VARCHAR(32) NOT NULL, type VARCHAR(16) NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    path TEXT NOT NULL, data TEXT NOT NULL, state VARCHAR(9) NOT NULL, attempts INTEGER NOT NULL, fault TEXT,
    created_ms BIGINT NOT NULL, due_ms BIGINT NOT NULL, ended_ms BIGINT, CONSTRAINT pk_deliveries PRIMARY KEY (id));
CREATE TABLE facts (name VARCHAR(64) NOT NULL, value TEXT NOT NULL, CONSTRAINT pk_facts PRIMARY KEY (name));
CREATE TABLE fraud_control_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT fraud_control_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "fraud_control_version" VALUES('23');
CREATE TABLE item_expiries (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, value TEXT NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_item_expiries PRIMARY KEY (kind, item_key, value));
CREATE TABLE item_revisions (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, revision BIGINT NOT NULL,
    part BIGINT NOT NULL, state VARCHAR(8) NOT NULL, document TEXT NOT NULL, operation VARCHAR(8) NOT NULL,
    type VARCHAR(32) NOT NULL, payload BLOB, source VARCHAR(32) NOT NULL, author VARCHAR(256) NOT NULL,
    content_author VARCHAR(256) NOT NULL, contributors TEXT NOT NULL, at_ms BIGINT NOT NULL, comment TEXT NOT NULL,
    outbox_seq BIGINT, log_version BIGINT, CONSTRAINT pk_item_revisions PRIMARY KEY (kind, item_key, revision, part));
INSERT INTO "item_revisions" VALUES('rule','1',1,0,'DRAFT','{"ruleId":1,"groupingKeyNames":["payeeId","beneficiaryId"],"aggregateFieldName":"paymentAmount","aggregatorFunctionType":"SUM","limitOperatorType":">","limit":20,"windowMinutes":20,"name":"a rule of this release","ruleState":"SHADOW","source":"ui"}','','',NULL,'ui','ann','ann','["ann"]',1700000000000,'',NULL,NULL);
CREATE TABLE items (kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL, number BIGINT, state VARCHAR(8) NOT NULL,
    document TEXT NOT NULL, search TEXT NOT NULL, author VARCHAR(256) NOT NULL, revision BIGINT NOT NULL,
    last_revision BIGINT NOT NULL, source VARCHAR(32) NOT NULL, contributors TEXT NOT NULL,
    updated_at_ms BIGINT NOT NULL, updated_by VARCHAR(256) NOT NULL, outbox_seq BIGINT, log_version BIGINT,
    approval_id INTEGER, CONSTRAINT pk_items PRIMARY KEY (kind, item_key));
INSERT INTO "items" VALUES('rule','1',1,'DRAFT','{"ruleId":1,"groupingKeyNames":["payeeId","beneficiaryId"],"aggregateFieldName":"paymentAmount","aggregatorFunctionType":"SUM","limitOperatorType":">","limit":20,"windowMinutes":20,"name":"a rule of this release","ruleState":"SHADOW","source":"ui"}','1 a rule of this release   ','ann',1,1,'ui','["ann"]',1700000000000,'ann',NULL,NULL,NULL);
CREATE TABLE labels (transaction_id VARCHAR(256) NOT NULL, verdict VARCHAR(16) NOT NULL, source VARCHAR(8) NOT NULL,
    author VARCHAR(256) NOT NULL, at_ms BIGINT NOT NULL, origin VARCHAR(64) NOT NULL DEFAULT '', saved_ms BIGINT NOT NULL DEFAULT 0, CONSTRAINT pk_labels PRIMARY KEY (transaction_id));
CREATE TABLE leaderships (name VARCHAR(64) NOT NULL, holder VARCHAR(32) NOT NULL, until_ms BIGINT NOT NULL,
    CONSTRAINT pk_leaderships PRIMARY KEY (name));
CREATE TABLE marks (alert_id VARCHAR(64) NOT NULL, rule_id BIGINT NOT NULL, rule_version BIGINT NOT NULL,
    verdict VARCHAR(16) NOT NULL, who VARCHAR(256) NOT NULL, at_ms BIGINT NOT NULL,
    CONSTRAINT pk_marks PRIMARY KEY (alert_id));
CREATE TABLE outbox (seq BIGINT NOT NULL, revision BIGINT, "key" BLOB NOT NULL, value BLOB NOT NULL,
    wipes BOOLEAN NOT NULL, audit VARCHAR(96) NOT NULL, created_ms BIGINT NOT NULL, log_version BIGINT,
    published_ms BIGINT, kind VARCHAR(8) NOT NULL, item_key VARCHAR(63) NOT NULL,
    CONSTRAINT pk_outbox PRIMARY KEY (seq));
CREATE TABLE positions (name VARCHAR(64) NOT NULL, next_offset BIGINT NOT NULL, topic_id VARCHAR(64),
    CONSTRAINT pk_positions PRIMARY KEY (name));
CREATE TABLE program_tokens (id VARCHAR(12) NOT NULL, digest VARCHAR(64) NOT NULL, owner VARCHAR(256) NOT NULL,
    name VARCHAR(63) NOT NULL, role VARCHAR(16) NOT NULL, created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL, CONSTRAINT pk_program_tokens PRIMARY KEY (id));
CREATE TABLE pseudonyms (value VARCHAR(256) NOT NULL, secret BLOB NOT NULL,
    CONSTRAINT pk_pseudonyms PRIMARY KEY (value));
CREATE TABLE saved_searches (user_name VARCHAR(256) NOT NULL, name VARCHAR(80) NOT NULL, "query" TEXT NOT NULL,
    at_ms BIGINT NOT NULL, CONSTRAINT pk_saved_searches PRIMARY KEY (user_name, name));
CREATE TABLE snoozes (id INTEGER NOT NULL, rule_id BIGINT NOT NULL, "key" TEXT, until_ms BIGINT NOT NULL,
    who VARCHAR(256) NOT NULL, reason TEXT NOT NULL, at_ms BIGINT NOT NULL, CONSTRAINT pk_snoozes PRIMARY KEY (id));
CREATE TABLE submissions (who VARCHAR(256) NOT NULL, request_key VARCHAR(128) NOT NULL, digest VARCHAR(64) NOT NULL,
    at_ms BIGINT NOT NULL, status INTEGER, headers TEXT, answer BLOB, CONSTRAINT pk_submissions PRIMARY KEY (who,
    request_key));
CREATE TABLE subscriptions (id INTEGER NOT NULL, terms TEXT NOT NULL, author VARCHAR(256) NOT NULL,
    created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, digest_ms BIGINT,
    CONSTRAINT pk_subscriptions PRIMARY KEY (id));
CREATE TABLE what_ifs (number INTEGER NOT NULL, id VARCHAR(12) NOT NULL, who VARCHAR(256) NOT NULL, rule_id BIGINT,
    question BLOB NOT NULL, status VARCHAR(8) NOT NULL, at_ms BIGINT NOT NULL, result BLOB, said TEXT,
    CONSTRAINT pk_what_ifs PRIMARY KEY (number));
CREATE UNIQUE INDEX ix_accounts_user_name ON accounts (user_name);
CREATE INDEX ix_alarms_last_ms ON alarms (last_ms);
CREATE INDEX ix_alert_values_value ON alert_values (value, field, append_ms, alert_id);
CREATE INDEX ix_alerts_amount ON alerts (amount, append_ms, source, record_offset, severity_rank, rule_id, shadow);
CREATE INDEX ix_alerts_case ON alerts (case_id, append_ms, source, record_offset);
CREATE INDEX ix_alerts_rule ON alerts (rule_id, append_ms);
CREATE INDEX ix_alerts_severity ON alerts (severity_rank, append_ms);
CREATE INDEX ix_alerts_time ON alerts (append_ms, source, record_offset);
CREATE INDEX ix_audit_action ON audit (action, seq);
CREATE INDEX ix_audit_item ON audit (kind, item_key, seq);
CREATE INDEX ix_audit_time ON audit (at_ms, seq);
CREATE INDEX ix_audit_user ON audit (who, seq);
CREATE INDEX ix_case_events_case ON case_events (case_id, event_id);
CREATE INDEX ix_cases_assignee ON cases (assignee, closed, urgency, case_id);
CREATE INDEX ix_cases_entity ON cases (entity_value, entity_field, case_id);
CREATE INDEX ix_cases_newest ON cases (closed, last_alert_ms, case_id);
CREATE UNIQUE INDEX ix_cases_open_entity ON cases (open_entity);
CREATE INDEX ix_cases_urgency ON cases (closed, urgency, case_id);
CREATE INDEX ix_deliveries_due ON deliveries (state, receiver, due_ms);
CREATE INDEX ix_deliveries_subscription ON deliveries (subscription_id, type, created_ms);
CREATE INDEX ix_item_expiries_at_ms ON item_expiries (at_ms);
CREATE INDEX ix_item_revisions_order ON item_revisions (kind, item_key, log_version);
CREATE INDEX ix_item_revisions_outbox_seq ON item_revisions (outbox_seq);
CREATE INDEX ix_items_number ON items (kind, number);
CREATE INDEX ix_items_outbox_seq ON items (outbox_seq);
CREATE INDEX ix_items_state ON items (kind, state);
CREATE INDEX ix_labels_at_ms ON labels (at_ms);
CREATE INDEX ix_marks_rule ON marks (rule_id, verdict, rule_version);
CREATE INDEX ix_marks_verdict ON marks (verdict, at_ms);
CREATE INDEX ix_outbox_item ON outbox (kind, item_key);
CREATE INDEX ix_outbox_waiting ON outbox (seq) WHERE log_version IS NULL;
CREATE INDEX ix_outbox_wipes ON outbox (wipes);
CREATE UNIQUE INDEX ix_program_tokens_digest ON program_tokens (digest);
CREATE INDEX ix_program_tokens_owner ON program_tokens (owner);
CREATE INDEX ix_snoozes_rule_id ON snoozes (rule_id);
CREATE INDEX ix_snoozes_until_ms ON snoozes (until_ms);
CREATE INDEX ix_submissions_at_ms ON submissions (at_ms);
CREATE INDEX ix_submissions_time ON submissions (who, at_ms);
CREATE UNIQUE INDEX ix_what_ifs_id ON what_ifs (id);
CREATE INDEX ix_what_ifs_status ON what_ifs (status);
CREATE INDEX ix_approvals_item ON approvals (kind, item_key);
CREATE INDEX ix_approvals_open ON approvals (id) WHERE decision IS NULL;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq) BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE INDEX ix_labels_saved_ms ON labels (saved_ms);
CREATE INDEX ix_labels_verdict ON labels (source, origin, verdict, at_ms);
CREATE INDEX ix_alert_payments_transaction ON alert_payments (transaction_id);
CREATE INDEX ix_alert_payments_time ON alert_payments (append_ms);
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
            WHEN OLD.seq > COALESCE((SELECT MAX(seq) FROM audit_anchors), 0)
            BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
COMMIT;

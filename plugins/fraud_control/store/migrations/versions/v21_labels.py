"""The source and the time that labels name, and the payments of alerts."""

from __future__ import annotations

import json
import zlib
from typing import Any

from alembic import op
from sqlalchemy import text

revision = "21"
down_revision = "20"
branch_labels = None
depends_on = None

_CHANGES = (
    "ALTER TABLE labels ADD COLUMN origin VARCHAR(64) NOT NULL DEFAULT ''",
    "ALTER TABLE labels ADD COLUMN saved_ms BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX ix_labels_saved_ms ON labels (saved_ms)",
    "DROP INDEX ix_labels_verdict",
    "CREATE INDEX ix_labels_verdict ON labels (source, origin, verdict, at_ms)",
    """CREATE TABLE alert_payments (alert_id VARCHAR(64) NOT NULL, transaction_id VARCHAR(256) NOT NULL,
    rule_id BIGINT NOT NULL, rule_version BIGINT NOT NULL, append_ms BIGINT NOT NULL, amount FLOAT,
    shadow BOOLEAN NOT NULL, in_effect BOOLEAN NOT NULL, CONSTRAINT pk_alert_payments PRIMARY KEY (alert_id))""",
    "CREATE INDEX ix_alert_payments_transaction ON alert_payments (transaction_id)",
    "CREATE INDEX ix_alert_payments_time ON alert_payments (append_ms)",
)
_ALERTS = text(
    "SELECT alert_id, rule_id, append_ms, amount, shadow, correction, json FROM alerts WHERE alert_id > :after"
    " ORDER BY alert_id LIMIT 1000"
)
_ADD = text(
    "INSERT INTO alert_payments VALUES"
    " (:alert_id, :transaction_id, :rule_id, :rule_version, :append_ms, :amount, :shadow, :in_effect)"
)


def upgrade() -> None:
    """Add the columns and the table, with the payments of the alerts in the index."""
    for change in _CHANGES:
        op.execute(change)
    connection, after = op.get_bind(), ""
    while rows := connection.execute(_ALERTS, {"after": after}).mappings().all():
        connection.execute(_ADD, [_payment_of(row) for row in rows])
        after = rows[-1]["alert_id"]


def _payment_of(row: Any) -> dict[str, Any]:
    alert = json.loads(zlib.decompress(row["json"]))
    return {
        **{name: row[name] for name in ("alert_id", "rule_id", "append_ms", "amount")},
        "shadow": bool(row["shadow"]),
        "transaction_id": str(alert["triggeringEvent"]["transactionId"]).replace("\0", "")[:256],
        "rule_version": alert["ruleVersion"],
        "in_effect": row["correction"] != "RETRACTED",
    }

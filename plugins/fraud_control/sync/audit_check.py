"""The audit check: compares the audit chain with the rule log. Each of our records there names the audit row of its
change, and the log cannot be changed afterwards.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from fraud_control.domain.errors import AuditBroken
from fraud_control.domain.read_models import AuditVerdict
from fraud_control.service.audit import anchor
from fraud_control.store.database import Database
from fraud_control.store.facts import store_id
from fraud_control.store.models import AuditEntry
from fraud_control.sync.mirror import STORE_HEADER
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.proof.audit import AUDIT_HEADER


def check_audit(database: Database, kafka: KafkaConnection, topic: str, verdict: AuditVerdict) -> int:
    """Check that the audit log still has every row that our records name, except those that retention has removed.
    Return the number of the records.

    The check finds a chain that was cut off at its end or rewritten from some row on. Raises AuditBroken,
    BrokerUnavailable.
    """
    ours, count = store_id(database).encode(), 0
    with TopicReader(kafka, topic) as reader, database.reading() as session:
        removed, _ = anchor(session)
        for record in reader.read(*reader.ends()):
            named = dict(record.headers)
            if named.get(STORE_HEADER) == ours:
                count += _check(session, record, named.get(AUDIT_HEADER) or b"", verdict, removed)
    return count


def _check(session: Session, record: Record, witness: bytes, verdict: AuditVerdict, removed: int) -> bool:
    """Check the row that a record names; return false for a row that retention has removed."""
    number, _, digest = witness.decode("ascii", "replace").partition(":")
    seq = int(number) if number.isdigit() and len(number) < 19 else 0
    if 0 < seq <= removed:
        return False
    entry = session.get(AuditEntry, seq)
    if entry is None or entry.hash != digest:
        at = f"offset {record.offset} of the rule log names row {number[:20]}"
        raise AuditBroken(f"{at}, but the audit log of {verdict.rows} rows does not have that row unchanged")
    return True

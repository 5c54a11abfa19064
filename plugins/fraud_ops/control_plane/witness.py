"""What the rule log says of the audit chain: each record of ours names the row of its change, where nobody can take
it back.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from fraud_ops.control_plane.errors import AuditBroken
from fraud_ops.control_plane.mirror import AUDIT_HEADER, STORE_HEADER
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.facts import store_id
from fraud_ops.control_plane.store.models import AuditEntry
from fraud_ops.control_plane.views import ChainVerdict
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader

__all__ = ["check_witnesses"]


def check_witnesses(database: Database, kafka: KafkaConnection, topic: str, verdict: ChainVerdict) -> int:
    """How many records of ours name a row that is there as they name it. Raises AuditBroken, BrokerUnavailable.

    It finds a chain that was cut off at its end, or written anew from some row on.
    """
    ours, count = store_id(database).encode(), 0
    with TopicReader(kafka, topic) as reader, database.reading() as session:
        for record in reader.read(*reader.ends()):
            named = dict(record.headers)
            if named.get(STORE_HEADER) == ours:
                _check(session, record, named.get(AUDIT_HEADER) or b"", verdict)
                count += 1
    return count


def _check(session: Session, record: Record, witness: bytes, verdict: ChainVerdict) -> None:
    number, _, digest = witness.decode("ascii", "replace").partition(":")
    entry = session.get(AuditEntry, int(number)) if number.isdigit() and len(number) < 19 else None
    if entry is None or entry.hash != digest:
        at = f"offset {record.offset} of the rule log names row {number[:20]}"
        raise AuditBroken(f"{at}, which is not in the audit log of {verdict.rows} rows as it was written")

"""Makes proofs of alerts and decisions in a process of the pool, with the audit rows about their rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import select

from fraud_control.domain.item import ItemName
from fraud_control.feed.decisions import FeedDecision
from fraud_control.feed.events import FeedAlert
from fraud_control.service.reading.pool import ReadingPool
from fraud_control.store.database import Database
from fraud_control.store.models import AuditEntry
from fraud_rules.batch.proof.topics import AuditRows, prove_decision, prove_record
from fraud_rules.batch.proof.written import ProofSource, record_at
from fraud_rules.errors import NotProvable
from fraud_rules.proof.decision import write_decision_file
from fraud_rules.proof.document import EvaluationOrder, ProvedAuditRow, write_file
from fraud_rules.proof.signature import signer_of
from fraud_rules.runtime.clock import now_ms

MOST_RECORDS: Final = 300_000
"""The most records of a proof. They need about 0.4 GB in a process of the pool."""

_MOST_ROWS: Final = 1_000
_TOO_SLOW: Final = "the topics could not be read in time: try again"


class ProofReader:
    """Makes proofs from the topics of a source. Several threads may use it."""

    def __init__(self, pool: ReadingPool, source: ProofSource, database: Database, key: Path | None) -> None:
        """`key` is the file of the key that signs proofs, if there is one. Raises ConfigError if it has no key."""
        self._pool = pool
        self._source = source
        self._database = database
        self._key = key
        if key is not None:
            signer_of(key)

    def prove(self, alert: FeedAlert, *, retraction: bool) -> bytes:
        """Make the file of the proof of an alert, or of its `retraction`. Raises Unavailable, and NotFound if
        topics and archive lack what it needs."""
        order: EvaluationOrder = "arrival" if alert.added_ms is None else "event"
        question = alert.json, self._audit_rows(alert.facts.rule_id), order, retraction, self._key
        return self._pool.ask(_prove, self._source, question, _TOO_SLOW)

    def prove_decision(self, decision: FeedDecision) -> bytes:
        """Make the file of the proof of a decision. Raises Unavailable, and NotFound if topics and archive lack what it
        needs."""
        audit = {each.rule_id: self._audit_rows(each.rule_id) for each in decision.alerts}
        question = decision.offset, audit, self._key
        return self._pool.ask(_prove_decision, self._source, question, _TOO_SLOW)

    def _audit_rows(self, rule_id: int) -> Sequence[ProvedAuditRow]:
        """The newest rows about a rule, ascending."""
        concerned = AuditEntry.concerns(ItemName.of_rule(rule_id))
        with self._database.reading() as session:
            newest = select(AuditEntry).where(concerned).order_by(AuditEntry.seq.desc()).limit(_MOST_ROWS)
            return [proved_row(each) for each in session.scalars(newest)][::-1]


def proved_row(entry: AuditEntry) -> ProvedAuditRow:
    """The row as a proof has it."""
    return msgspec.convert(entry, ProvedAuditRow, from_attributes=True)


def _prove(
    source: ProofSource, question: tuple[bytes, Sequence[ProvedAuditRow], EvaluationOrder, bool, Path | None]
) -> bytes:
    alert, audit, order, retraction, key = question
    proof = prove_record(alert, source, now_ms(), audit, order, retraction=retraction)
    return write_file(proof, None if key is None else signer_of(key))


def _prove_decision(source: ProofSource, question: tuple[int, AuditRows, Path | None]) -> bytes:
    offset, audit, key = question
    record = record_at(source, source.settings.topics.decisions, offset)
    if record is None:
        raise NotProvable("the topic of decisions does not have the decision anymore")
    proof = prove_decision(record, source, now_ms(), audit)
    return write_decision_file(proof, None if key is None else signer_of(key))

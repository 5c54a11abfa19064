"""The audit log: one row a change, each bound to the one before it by a hash.

`hash` is the SHA-256, in hex, of the canonical JSON of the row's members and `previous_hash`; the first row's
previous hash is 64 zeros. So a row that was changed, removed or put in between is found, by whoever reckons the chain
anew. The end cut off would not be: each record of the rule log names the row of its change (see `outbox`), as a
witness outside the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.canonical import canonical, decoded
from fraud_ops.control_plane.store.models import AuditEntry
from fraud_ops.control_plane.views import AuditRow, ChainVerdict

__all__ = ["FIRST", "Chain", "Deed", "row_of", "verify"]

FIRST: Final = "0" * 64
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Deed:
    """A change to be written down: plain values before and after, None for nothing."""

    who: str
    action: str
    subject: str
    before: object = None
    after: object = None
    rule_id: int | None = None


class Chain:
    """The end of the log, as the only writer has it in its transaction.

    `end` is the number and the hash of the last row, None before the first row is appended.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.end: tuple[int, str] | None = None

    def append(self, deed: Deed, at_ms: int) -> AuditEntry:
        """Add a row, in the writer's transaction."""
        seq, previous = self.end or self._read()
        entry = AuditEntry(
            seq=seq + 1,
            at_ms=at_ms,
            who=deed.who,
            action=deed.action,
            subject=deed.subject,
            rule_id=deed.rule_id,
            before=canonical(deed.before).decode(),
            after=canonical(deed.after).decode(),
            previous_hash=previous,
            hash="",
        )
        entry.hash = hash_of(entry)
        self._session.add(entry)
        self.end = entry.seq, entry.hash
        return entry

    def _read(self) -> tuple[int, str]:
        newest = select(AuditEntry.seq, AuditEntry.hash).order_by(AuditEntry.seq.desc()).limit(1)
        last = self._session.execute(newest).one_or_none()
        return (0, FIRST) if last is None else (last.seq, last.hash)


def hash_of(entry: AuditEntry) -> str:
    """The hash that a row must have. Texts are hashed as stored, so that no reading of them is trusted."""
    members = {
        "seq": entry.seq,
        "atMs": entry.at_ms,
        "who": entry.who,
        "action": entry.action,
        "subject": entry.subject,
        "ruleId": entry.rule_id,
        "before": entry.before,
        "after": entry.after,
        "previousHash": entry.previous_hash,
    }
    return hashlib.sha256(canonical(members)).hexdigest()


def verify(session: Session) -> ChainVerdict:
    """Reckon every row anew, in the order of the chain; memory stays bounded."""
    rows = session.execute(select(AuditEntry).order_by(AuditEntry.seq).execution_options(yield_per=_AT_ONCE))
    return _verdict(rows.scalars())


def row_of(entry: AuditEntry) -> AuditRow:
    """A row for people."""
    return AuditRow(
        seq=entry.seq,
        at_ms=entry.at_ms,
        who=entry.who,
        action=entry.action,
        subject=entry.subject,
        before=decoded(entry.before),
        after=decoded(entry.after),
        previous_hash=entry.previous_hash,
        hash=entry.hash,
    )


def _verdict(entries: Iterable[AuditEntry]) -> ChainVerdict:
    rows, previous, broken_at = 0, FIRST, None
    for rows, entry in enumerate(entries, 1):
        fits = entry.seq == rows and entry.previous_hash == previous and entry.hash == hash_of(entry)
        if not fits and broken_at is None:
            broken_at = min(entry.seq, rows)
        previous = entry.hash
    return ChainVerdict(broken_at is None, rows, broken_at, previous)

"""Closes cases without a person: no person worked on them until they expired, or all their alerts were retracted.

The caller holds the writer's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import ColumnElement, case, delete, exists, func, not_, select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical
from fraud_control.domain.case_models import URGENCIES, CaseAction, CaseOutcome, CaseStatus
from fraud_control.domain.roles import system_author
from fraud_control.service.audit import AuditChain, AuditRecord
from fraud_control.store.alert_models import IN_EFFECT, AlertRow
from fraud_control.store.case_models import CaseEventRow, CaseRow

AUTHOR: Final = system_author("cases")
_AT_ONCE: Final = 2_000
_EXPIRED_KEPT_MS: Final = 365 * 86_400_000
_LEAST_URGENT: Final = len(URGENCIES) - 1


def untouched() -> ColumnElement[bool]:
    """The condition for a case on which no person has worked: no change, comment or mark."""
    of_persons = exists().where(CaseEventRow.case_id == CaseRow.case_id, CaseEventRow.who != AUTHOR)
    return CaseRow.updated_ms.is_(None) & not_(of_persons)


def expire_cases(session: Session, before_ms: int, now_ms: int) -> int:
    """Close some untouched cases whose last alert is older than `before_ms`, with one audit row; return their number.

    A year later, expired cases leave the store. Their audit row stays.
    """
    old = CaseRow.closed.is_(False) & (CaseRow.last_alert_ms < before_ms)
    cases = session.scalars(select(CaseRow).where(old, untouched()).order_by(CaseRow.case_id).limit(_AT_ONCE)).all()
    for each in cases:
        _close(session, each, CaseOutcome.EXPIRED, now_ms)
    _audit(session, "case.expire", cases, CaseOutcome.EXPIRED, now_ms)
    gone = CaseRow.closed.is_(True) & (CaseRow.last_alert_ms < before_ms - _EXPIRED_KEPT_MS)
    expired = (CaseRow.outcome == CaseOutcome.EXPIRED.value) & (CaseRow.updated_by == AUTHOR)
    ids = session.scalars(select(CaseRow.case_id).where(gone, expired).limit(_AT_ONCE)).all()
    for table in (CaseEventRow, CaseRow) if ids else ():
        session.execute(delete(table).where(table.case_id.in_(ids)))
    return len(cases)


def update_corrected_cases(session: Session, alert_ids: Collection[str], now_ms: int) -> None:
    """Update the cases of corrected alerts. Retracted alerts do not count for the severity of a case.

    An untouched case without other alerts closes as RETRACTED. It opens again when one of its alerts is in effect
    again, unless its entity has an open case, which then gets the alert.
    """
    session.flush()
    found = select(AlertRow.case_id).where(AlertRow.alert_id.in_(alert_ids), AlertRow.case_id.is_not(None)).distinct()
    ids = session.scalars(found).all()
    ranks = select(AlertRow.case_id, func.max(case((IN_EFFECT, AlertRow.severity_rank), else_=-1)))
    ranked = session.execute(ranks.where(AlertRow.case_id.in_(ids)).group_by(AlertRow.case_id))
    rank_of = {each: rank for each, rank in ranked if each is not None}
    bare = set(session.scalars(select(CaseRow.case_id).where(CaseRow.case_id.in_(ids), untouched())))
    ending: list[CaseRow] = []
    for row in session.scalars(select(CaseRow).where(CaseRow.case_id.in_(ids)).order_by(CaseRow.case_id)):
        rank = rank_of[row.case_id]
        if not row.closed:
            row.urgency = _LEAST_URGENT - max(0, rank)
            if rank < 0 and row.case_id in bare:
                _close(session, row, CaseOutcome.RETRACTED, now_ms)
                ending.append(row)
        elif rank >= 0 and row.outcome == CaseOutcome.RETRACTED and row.updated_by == AUTHOR:
            _reopen(session, row, rank, now_ms)
    _audit(session, "case.retract", ending, CaseOutcome.RETRACTED, now_ms)


def _reopen(session: Session, row: CaseRow, rank: int, now_ms: int) -> None:
    """Open a case again that closed only because its alerts were retracted, or move its alerts to the open case."""
    entity, urgency = f"{row.entity_field}:{row.entity_value}", _LEAST_URGENT - rank
    other = session.scalar(select(CaseRow).where(CaseRow.open_entity == entity))
    if other is None:
        row.status, row.closed, row.outcome, row.open_entity = CaseStatus.OPEN.value, False, None, entity
        row.urgency, row.revision, row.updated_ms, row.updated_by = urgency, row.revision + 1, None, None
        _add_event(session, row, {"status": CaseStatus.OPEN, "outcome": None}, now_ms)
        _audit(session, "case.status", [row], None, now_ms)
        return
    moved = (AlertRow.case_id == row.case_id) & IN_EFFECT
    count = session.scalar(select(func.count()).where(moved)) or 0
    session.execute(update(AlertRow).where(moved).values(case_id=other.case_id))
    row.alerts -= count
    other.alerts, other.urgency = other.alerts + count, min(other.urgency, urgency)


def _close(session: Session, row: CaseRow, outcome: CaseOutcome, now_ms: int) -> None:
    row.status, row.closed, row.outcome, row.open_entity = CaseStatus.CLOSED.value, True, outcome.value, None
    row.revision += 1
    row.updated_ms, row.updated_by = now_ms, AUTHOR
    _add_event(session, row, {"status": CaseStatus.CLOSED, "outcome": outcome}, now_ms)


def _add_event(session: Session, row: CaseRow, detail: dict[str, object], now_ms: int) -> None:
    text = canonical(detail).decode()
    action = CaseAction.STATUS.value
    session.add(CaseEventRow(case_id=row.case_id, at_ms=now_ms, who=AUTHOR, action=action, detail=text, comment=""))


def _audit(session: Session, action: str, cases: Sequence[CaseRow], outcome: CaseOutcome | None, now_ms: int) -> None:
    if cases:
        ids = [each.case_id for each in cases]
        subject = f"case {ids[0]}" if len(ids) == 1 else f"{len(ids)} cases"
        after = {"status": cases[0].status, "outcome": outcome, "cases": ids}
        AuditChain(session).append(AuditRecord(AUTHOR, action, subject, None, after), now_ms)
        session.flush()

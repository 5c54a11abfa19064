"""Removes data beyond its retention: closed cases, ended snoozes, and the oldest rows of the audit log."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from sqlalchemy import delete, func, select, update

from fraud_control.domain.read_models import ReadModel
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.service.audit import AuditRecord, anchor, prune
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import batches
from fraud_control.store.alert_models import AlertRow, SnoozeRow
from fraud_control.store.case_models import CaseEventRow, CaseRow
from fraud_rules.model.day import DAY_MS

_CASES_AT_ONCE: Final = 10_000


class Expired(ReadModel):
    """The numbers of removed rows."""

    cases: int
    snoozes: int
    audit_rows: int = Field(description="At most 50,000 at once. The rest follows in the next run.")


def remove_expired(work: UnitOfWork, who: Actor) -> Expired:
    """Remove what is older than the settings permit, with an audit row. Raises RequestRefused, AuditBroken."""
    require(who, Permission.ERASE)
    kept = work.settings.retention
    cases = snoozes = rows = 0
    if kept.cases_days:
        before_ms = work.now_ms - kept.cases_days * DAY_MS
        ended = func.coalesce(CaseRow.updated_ms, CaseRow.last_alert_ms) < before_ms
        old = select(CaseRow.case_id).where(CaseRow.closed.is_(True), ended).limit(_CASES_AT_ONCE)
        cases = remove_cases(work, list(work.session.scalars(old)))
        gone = work.session.execute(delete(SnoozeRow).where(SnoozeRow.until_ms < before_ms))
        snoozes = gone.rowcount  # type: ignore[attr-defined]
    if kept.audit_days:
        rows = prune(work.session, work.now_ms - kept.audit_days * DAY_MS, work.now_ms)
    found = Expired(cases=cases, snoozes=snoozes, audit_rows=rows)
    if cases or snoozes or rows:
        seq, digest = anchor(work.session)
        after = found.model_dump(by_alias=True) | {"anchor": f"{seq}:{digest}"}
        work.append_audit(AuditRecord(who.user, "retention.remove", "retention", None, after))
    return found


def remove_cases(work: UnitOfWork, case_ids: list[int]) -> int:
    """Remove cases with their histories, and return their number. Their alerts stay, without a case."""
    for chunk in batches(case_ids):
        work.session.execute(update(AlertRow).where(AlertRow.case_id.in_(chunk)).values(case_id=None))
        for table in (CaseEventRow, CaseRow):
            work.session.execute(delete(table).where(table.case_id.in_(chunk)))
    return len(case_ids)

"""Closes all cases, or marks all unreviewed alerts, that match a filter, with one audit row, and undoes it.

A flood opens thousands of cases within a minute. A request changes at most MOST_CASES cases and MOST_MARKS alerts, so
that other writers do not wait for long. Repeat it while `remaining` is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.orm import Session, undefer

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import BulkChange, CaseAction, CaseOutcome, CaseSearch, CaseStatus
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.masking import HIDDEN
from fraud_control.domain.read_models import MarkVerdict
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.snoozing import Snoozing
from fraud_control.service.alerts.index import indexed_alert
from fraud_control.service.alerts.search import search_conditions
from fraud_control.service.audit import AuditRecord
from fraud_control.service.cases.changes import event_members
from fraud_control.service.cases.queries import UNREVIEWED, case_conditions
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import batches, storable_id
from fraud_control.store.alert_models import AlertRow, MarkRow
from fraud_control.store.case_models import CaseEventRow, CaseRow
from fraud_control.store.models import AuditEntry
from fraud_rules.errors import Reason

MOST_CASES: Final = 10_000
MOST_MARKS: Final = 10_000
_CLOSE: Final = "case.bulk_close"
_MARK: Final = "alert.bulk_mark"
_VERDICTS: Final[Mapping[CaseOutcome, MarkVerdict]] = {
    CaseOutcome.FRAUD: "FRAUD",
    CaseOutcome.NOT_FRAUD: "NOT_FRAUD",
}


def matching_cases(work: UnitOfWork, search: CaseSearch) -> int:
    """Count the cases of a filter that are not closed."""
    return work.session.scalar(select(func.count()).where(*_open(work, search))) or 0


def matching_alerts(session: Session, search: AlertSearch, snoozing: Snoozing) -> Sequence[str]:
    """The unreviewed alerts of a filter, at most MOST_MARKS + 1 of them: an index can have a million."""
    conditions = [*search_conditions(session, search, snoozing), UNREVIEWED]
    return session.scalars(select(AlertRow.alert_id).where(*conditions).limit(MOST_MARKS + 1)).all()


def close_matching(
    work: UnitOfWork, who: Actor, search: CaseSearch, outcome: CaseOutcome, *, marks: bool, comment: str = ""
) -> BulkChange:
    """Close the cases of a filter. `marks`: also mark their unreviewed alerts as the outcome. Alerts that arrive later
    open new cases. Raises RequestRefused, Invalid.
    """
    require(who, Permission.WORK_CASES)
    if not outcome.is_decision:
        raise Invalid([Reason("outcome", f"{outcome} is no decision of a person")])
    verdict = _VERDICTS.get(outcome)
    if marks and verdict is None:
        raise Invalid([Reason("marks", "an inconclusive case has no mark for its alerts")])
    session = work.session
    matching = matching_cases(work, search)
    oldest_first = select(CaseRow.case_id).where(*_open(work, search)).order_by(CaseRow.case_id)
    ids = session.scalars(oldest_first.limit(MOST_CASES)).all()
    marked = _mark_alerts_of(work, who, ids, verdict) if marks and verdict is not None else 0
    detail = {"status": CaseStatus.CLOSED.value, "outcome": outcome.value}
    values = {"status": CaseStatus.CLOSED.value, "closed": True, "outcome": outcome.value, "open_entity": None}
    _change(work, who, ids, values, detail, comment)
    facts = {"filter": _described(work, search), "outcome": outcome.value, "cases": len(ids), "marked": marked}
    return _recorded(work, who, _CLOSE, f"{len(ids)} cases", facts, comment, len(ids), marked, matching - len(ids))


def mark_matching(
    work: UnitOfWork, who: Actor, search: AlertSearch, matching: Sequence[str], verdict: MarkVerdict, comment: str
) -> BulkChange:
    """Mark those of the matching alerts of a filter that are unreviewed. Marks that users have set stay. Raises
    RequestRefused.
    """
    require(who, Permission.MARK)
    marked = 0
    for chunk in batches(matching[:MOST_MARKS]):
        marked += _mark_rows(work, who, [AlertRow.alert_id.in_(chunk), UNREVIEWED], verdict, len(chunk))
    facts = {"filter": _described(work, search), "verdict": verdict, "marked": marked}
    remaining = max(0, len(matching) - MOST_MARKS)
    return _recorded(work, who, _MARK, f"{marked} alerts", facts, comment, 0, marked, remaining)


def undo(work: UnitOfWork, who: Actor, seq: int) -> BulkChange:
    """Reopen the cases and remove the marks of a bulk change, except those that a user has changed since. A case whose
    entity has another open case stays closed (`remaining`). Raises RequestRefused, NotFound.
    """
    require(who, Permission.WORK_CASES)
    entry = work.session.get(AuditEntry, storable_id(seq))
    if entry is None or entry.action not in (_CLOSE, _MARK):
        raise NotFound(f"row {seq} of the audit log is no bulk change")
    removed = work.session.execute(delete(MarkRow).where(MarkRow.who == entry.who, MarkRow.at_ms == entry.at_ms))
    marked: int = removed.rowcount  # type: ignore[attr-defined]
    ids = [] if entry.action == _MARK else _closed_by(work.session, entry)
    reopened = list(_reopened(work, who, ids))
    facts = {"row": seq, "cases": len(reopened), "marked": marked}
    subject = f"row {seq} of the audit log"
    return _recorded(work, who, "case.bulk_undo", subject, facts, "", len(reopened), marked, len(ids) - len(reopened))


def _open(work: UnitOfWork, search: CaseSearch) -> list[ColumnElement[bool]]:
    return [*case_conditions(work, search), CaseRow.closed.is_(False)]


def _change(
    work: UnitOfWork,
    who: Actor,
    ids: Sequence[int],
    values: Mapping[str, Any],
    detail: Mapping[str, object],
    comment: str,
) -> None:
    """Change some cases and add an event to the history of each."""
    event = event_members(work, who, CaseAction.STATUS, detail, comment)
    changed = {**values, "updated_ms": work.now_ms, "updated_by": who.user}
    for chunk in batches(ids):
        work.session.execute(insert(CaseEventRow), [{**event, "case_id": each} for each in chunk])
        work.session.execute(
            update(CaseRow).where(CaseRow.case_id.in_(chunk)).values(revision=CaseRow.revision + 1, **changed),
            execution_options={"synchronize_session": False},
        )
    work.session.expire_all()


def _closed_by(session: Session, entry: AuditEntry) -> Sequence[int]:
    """The cases that a bulk change closed and that no user has changed since. They have its user and time."""
    by_it = CaseRow.closed.is_(True), CaseRow.updated_by == entry.who, CaseRow.updated_ms == entry.at_ms
    return session.scalars(select(CaseRow.case_id).where(*by_it).order_by(CaseRow.case_id)).all()


def _reopened(work: UnitOfWork, who: Actor, ids: Sequence[int]) -> Iterator[int]:
    detail = {"status": CaseStatus.OPEN.value, "outcome": None}
    for chunk in batches(ids):
        named = select(CaseRow.case_id, CaseRow.entity_field, CaseRow.entity_value)
        rows = work.session.execute(named.where(CaseRow.case_id.in_(chunk))).all()
        names = {case_id: f"{field}:{value}" for case_id, field, value in rows}
        taken = set(
            work.session.scalars(select(CaseRow.open_entity).where(CaseRow.open_entity.in_(set(names.values()))))
        )
        free = {name: case_id for case_id, name in names.items() if name not in taken}  # one case for each entity
        values = {"status": CaseStatus.OPEN.value, "closed": False, "outcome": None}
        _change(work, who, list(free.values()), values, detail, "")
        work.session.execute(update(CaseRow), [{"case_id": each, "open_entity": name} for name, each in free.items()])
        yield from free.values()


def _mark_alerts_of(work: UnitOfWork, who: Actor, case_ids: Sequence[int], verdict: MarkVerdict) -> int:
    marked = 0
    for chunk in batches(case_ids):
        conditions = [AlertRow.case_id.in_(chunk), UNREVIEWED]
        marked += _mark_rows(work, who, conditions, verdict, MOST_MARKS - marked)
    return marked


def _mark_rows(
    work: UnitOfWork, who: Actor, conditions: Sequence[ColumnElement[bool]], verdict: MarkVerdict, most: int
) -> int:
    """Mark alerts that have no mark."""
    ids = work.session.scalars(select(AlertRow.alert_id).where(*conditions).limit(max(0, most))).all()
    mark = {"verdict": verdict, "who": who.user, "at_ms": work.now_ms}
    for chunk in batches(ids):
        rows = select(AlertRow).where(AlertRow.alert_id.in_(chunk)).options(undefer(AlertRow.json))
        found = [
            {"alert_id": row.alert_id, "rule_id": row.rule_id, "rule_version": _version(row), **mark}
            for row in work.session.scalars(rows)
        ]
        work.session.execute(insert(MarkRow), found)
    return len(ids)


def _version(row: AlertRow) -> int:
    return indexed_alert(row).alert.facts.rule_version


def _described(work: UnitOfWork, search: CaseSearch | AlertSearch) -> dict[str, object]:
    """The filter for the audit log, without a text that can be the beginning of an id."""
    found = search.described()
    return found | {"text": HIDDEN} if "text" in found and work.pseudonyms.fields else found


def _recorded(
    work: UnitOfWork,
    who: Actor,
    action: str,
    subject: str,
    facts: Mapping[str, object],
    comment: str,
    cases: int,
    marked: int,
    remaining: int,
) -> BulkChange:
    if cases == 0 and marked == 0:
        return BulkChange(cases=0, marked=0, remaining=remaining, audit_row=None)
    after = {**facts, **({"comment": comment} if comment else {})}
    entry = work.append_audit(AuditRecord(who.user, action, subject, None, after))
    return BulkChange(cases=cases, marked=marked, remaining=remaining, audit_row=entry.seq)

"""Marks several alerts at once: those of a case, or those of a selection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session, undefer

from fraud_control.domain.case_models import BulkMarks, CaseAction
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import ItemName
from fraud_control.domain.read_models import MarkVerdict
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.feed.place import Position
from fraud_control.service.alerts.index import indexed_alert
from fraud_control.service.audit import AuditRecord
from fraud_control.service.cases.changes import add_event
from fraud_control.service.cases.queries import UNREVIEWED, case_of
from fraud_control.service.changes import UnitOfWork
from fraud_control.store.alert_models import AlertRow, MarkRow
from fraud_rules.errors import Reason

MOST_MARKS: Final = 1_000
"""The largest number of alerts that one request marks."""

_PLACE: Final = (AlertRow.append_ms, AlertRow.source, AlertRow.offset)


def mark_case(
    work: UnitOfWork, who: Actor, case_id: int, verdict: MarkVerdict, through: Position | None = None
) -> BulkMarks:
    """Mark the unreviewed alerts of a case up to the position `through`, at most MOST_MARKS of them.

    Marks that users have set stay. Raises NotFound, RequestRefused.
    """
    require(who, Permission.MARK)
    case = case_of(work.session, case_id)
    unreviewed = select(AlertRow).where(AlertRow.case_id == case_id, UNREVIEWED)
    if through is not None:
        unreviewed = unreviewed.where(tuple_(*_PLACE) <= tuple_(*through))
    rows = work.session.scalars(unreviewed.order_by(*_PLACE).limit(MOST_MARKS).options(undefer(AlertRow.json))).all()
    total = len(rows)
    if total == MOST_MARKS:
        total = work.session.scalar(select(func.count()).select_from(unreviewed.subquery())) or 0
    marked = _mark(work, who, rows, verdict, f"case {case_id}")
    if marked:
        add_event(work, who, case, CaseAction.MARK, {"verdict": verdict, "alerts": marked}, "")
    return BulkMarks(marked=marked, unchanged=0, remaining=total - marked, unknown=[])


def mark_alerts(work: UnitOfWork, who: Actor, alert_ids: Sequence[str], verdict: MarkVerdict | None) -> BulkMarks:
    """Mark the alerts of a selection, also those that have another mark; None removes marks.

    Raises RequestRefused, and Invalid for more than MOST_MARKS alerts.
    """
    require(who, Permission.MARK)
    wanted = set(alert_ids)
    if len(wanted) > MOST_MARKS:
        raise Invalid([Reason("alertIds", f"has {len(wanted)} ids; at most {MOST_MARKS} are allowed")])
    found = select(AlertRow).where(AlertRow.alert_id.in_(wanted)).options(undefer(AlertRow.json))
    rows = work.session.scalars(found.order_by(*_PLACE)).all()
    by_case = Counter(_changed_cases(work.session, rows, verdict))
    marked = _mark(work, who, rows, verdict, f"{len(rows)} alerts")
    for case_id, count in sorted(by_case.items()):
        detail = {"verdict": verdict, "alerts": count}
        add_event(work, who, case_of(work.session, case_id), CaseAction.MARK, detail, "")
    unknown = sorted(wanted - {row.alert_id for row in rows})
    return BulkMarks(marked=marked, unchanged=len(rows) - marked, remaining=0, unknown=unknown)


def _changed_cases(session: Session, rows: Sequence[AlertRow], verdict: MarkVerdict | None) -> list[int]:
    """The cases of the alerts whose marks change, once for each alert."""
    known = _marks(session, rows)
    return [
        row.case_id
        for row in rows
        if row.case_id is not None and (known[row.alert_id].verdict if row.alert_id in known else None) != verdict
    ]


def _mark(work: UnitOfWork, who: Actor, rows: Sequence[AlertRow], verdict: MarkVerdict | None, subject: str) -> int:
    """Save the marks that change, with one audit row for each rule, and return their number."""
    known = _marks(work.session, rows)
    changed: dict[int, list[str]] = defaultdict(list)
    before: dict[int, dict[str, object]] = defaultdict(dict)
    for row in rows:
        mark = known.get(row.alert_id)
        if (None if mark is None else mark.verdict) == verdict:
            continue
        changed[row.rule_id].append(row.alert_id)
        if mark is not None:
            before[row.rule_id][row.alert_id] = {"verdict": mark.verdict, "who": mark.who}
        _set_mark(work, who, row, mark, verdict)
    for rule_id, alert_ids in changed.items():
        earlier = before[rule_id] or None
        after = {"verdict": verdict, "alerts": alert_ids}
        action = "alert.unmark" if verdict is None else "alert.mark"
        work.append_audit(AuditRecord(who.user, action, subject, earlier, after, ItemName.of_rule(rule_id)))
    return sum(map(len, changed.values()))


def _set_mark(work: UnitOfWork, who: Actor, row: AlertRow, mark: MarkRow | None, verdict: MarkVerdict | None) -> None:
    if verdict is None:
        work.session.delete(mark)
        return
    if mark is None:
        version = indexed_alert(row).alert.facts.rule_version
        mark = MarkRow(alert_id=row.alert_id, rule_id=row.rule_id, rule_version=version)
        work.session.add(mark)
    mark.verdict, mark.who, mark.at_ms = verdict, who.user, work.now_ms


def _marks(session: Session, rows: Sequence[AlertRow]) -> Mapping[str, MarkRow]:
    found = session.scalars(select(MarkRow).where(MarkRow.alert_id.in_([row.alert_id for row in rows])))
    return {mark.alert_id: mark for mark in found}

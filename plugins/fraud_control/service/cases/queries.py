"""Reads cases. Every order of the review queue has an index of the database, but that by due time: it sorts the cases
that match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, not_, or_, select, tuple_
from sqlalchemy.orm import Session

from fraud_control.domain.case_models import (
    URGENCIES,
    Case,
    CaseDetail,
    CaseEvent,
    CaseOutcome,
    CaseRule,
    CaseSearch,
    CaseSort,
    CaseStatus,
)
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.roles import Role
from fraud_control.service.alerts.index import amount_field
from fraud_control.service.bindings import bindings
from fraud_control.service.cases.due import due_ms, due_order, overdue
from fraud_control.service.cases.endings import untouched
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import beyond_prefix
from fraud_control.settings import ResolveHours
from fraud_control.store.alert_models import IN_EFFECT, RETRACTED, AlertPaymentRow, AlertRow, MarkRow
from fraud_control.store.case_models import CaseEventRow, CaseRow
from fraud_rules.errors import Reason
from fraud_rules.model.day import DAY_MS

UNREVIEWED: Final = not_(select(MarkRow).where(MarkRow.alert_id == AlertRow.alert_id).exists())
"""The condition for alerts without a mark."""

_EVENTS: Final = 500
MOST_OTHERS: Final = 20
"""The number of other cases that a case shows."""

_Column = tuple[Any, bool]
"""A column of an order, and whether it descends."""

_ORDERS: Final[dict[CaseSort, tuple[_Column, ...]]] = {
    CaseSort.SEVERITY: ((CaseRow.urgency, False), (CaseRow.case_id, False)),
    CaseSort.NEWEST: ((CaseRow.last_alert_ms, True), (CaseRow.case_id, True)),
    CaseSort.OLDEST: ((CaseRow.case_id, False),),
}


@dataclass(frozen=True, slots=True)
class CasePage:
    """A page of the review queue. `more` says whether more cases follow, in the direction of the page."""

    cases: Sequence[Case]
    more: bool


def case_of(session: Session, case_id: int) -> CaseRow:
    """Read a case. Raises NotFound."""
    found = session.get(CaseRow, case_id) if 0 <= case_id < 2**31 else None
    if found is None:
        raise NotFound(f"there is no case {case_id}")
    return found


def case_page(
    work: UnitOfWork, search: CaseSearch, limit: int, *, after: int | None = None, before: int | None = None
) -> CasePage:
    """List at most `limit` cases after or before a case, which does not need to match the search.

    The page before a case is the one that ends there. Raises Invalid if there is no such case.
    """
    session = work.session
    columns = _order(work, search.sort)
    backwards = after is None and before is not None
    wanted = list(case_conditions(work, search))
    place = before if backwards else after
    if place is not None:
        wanted.append(_beyond(session, columns, place, backwards=backwards))
    order = [column.desc() if descends is not backwards else column.asc() for column, descends in columns]
    rows = session.scalars(select(CaseRow).where(*wanted).order_by(*order).limit(limit + 1)).all()
    shown = list(rows[:limit])
    return CasePage(cases_of(work, shown[::-1] if backwards else shown), len(rows) > limit)


@dataclass(frozen=True, slots=True)
class OpenCases:
    """The number of cases that are not closed, of those without an assignee, and of those that are overdue."""

    cases: int
    unassigned: int
    overdue: int


def count_open(session: Session, hours: ResolveHours, now_ms: int) -> OpenCases:
    """Count the cases that are not closed."""
    late = func.count(case((overdue(hours, now_ms), 1)))
    counted = select(func.count(), func.count(CaseRow.assignee), late).where(CaseRow.closed.is_(False))
    cases, assigned, late_cases = session.execute(counted).one()
    return OpenCases(cases, cases - assigned, late_cases)


def case_detail(work: UnitOfWork, case_id: int) -> CaseDetail:
    """Read a case with its events and the other cases of its entity. Raises NotFound."""
    session = work.session
    row = case_of(session, case_id)
    newest = select(CaseEventRow).where(CaseEventRow.case_id == case_id).order_by(CaseEventRow.event_id.desc())
    same = select(CaseRow).where(
        CaseRow.entity_value == row.entity_value, CaseRow.entity_field == row.entity_field, CaseRow.case_id != case_id
    )
    same_entity = session.scalars(same.order_by(CaseRow.case_id.desc()).limit(MOST_OTHERS)).all()
    (found,) = cases_of(work, [row])
    return CaseDetail(
        **vars(found),
        events=[CaseEvent.model_validate(each) for each in session.scalars(newest.limit(_EVENTS))],
        same_entity=cases_of(work, same_entity),
    )


def assignees(work: UnitOfWork) -> tuple[str, ...]:
    """List the users to whom a case can be assigned, by name."""
    found = bindings(work.session, work.settings)
    return tuple(each.user for each in found if each.role.includes(Role.ANALYST))


def _order(work: UnitOfWork, sort: CaseSort) -> tuple[_Column, ...]:
    if sort is CaseSort.DUE:
        return (due_order(work.settings.resolve_hours), False), (CaseRow.case_id, False)
    return _ORDERS[sort]


def _beyond(session: Session, columns: Sequence[_Column], place: int, *, backwards: bool) -> ColumnElement[bool]:
    """The condition for the cases after a case, or before it."""
    there = session.execute(
        select(*(column for column, _ in columns)).where(CaseRow.case_id == place)
    ).first()  # also of a case that has left the search
    if there is None:
        raise Invalid([Reason("after", "names a case that does not exist: load the list again")])
    parts: list[ColumnElement[bool]] = []
    for position, (column, descends) in enumerate(columns):
        value = there[position]
        next_one = column < value if descends is not backwards else column > value
        parts.append(and_(*(each == there[i] for i, (each, _) in enumerate(columns[:position])), next_one))
    return or_(*parts)


def case_conditions(work: UnitOfWork, search: CaseSearch) -> Iterator[ColumnElement[bool]]:
    """The conditions for the cases of a search."""
    yield from _work_conditions(work, search)
    if search.severities:
        yield CaseRow.urgency.in_([URGENCIES.index(each) for each in search.severities])
    if search.rule_id is not None:
        yield CaseRow.case_id.in_(select(AlertRow.case_id).where(AlertRow.rule_id == search.rule_id))
    if search.rule_id is not None and search.only_rule:
        other = select(AlertRow).where(AlertRow.case_id == CaseRow.case_id, AlertRow.rule_id != search.rule_id)
        yield not_(other.exists())
    if search.since_ms is not None:
        yield CaseRow.first_alert_ms >= search.since_ms
    if search.until_ms is not None:
        yield CaseRow.last_alert_ms < search.until_ms
    if search.entity is not None:
        field, value = search.entity
        yield tuple_(CaseRow.entity_field, CaseRow.entity_value) == tuple_(field, value)
    if search.text:
        yield and_(CaseRow.entity_value >= search.text, CaseRow.entity_value < beyond_prefix(search.text))
    if search.alert_id is not None:
        case_id = work.session.scalar(select(AlertRow.case_id).where(AlertRow.alert_id == search.alert_id))
        yield CaseRow.case_id == (-1 if case_id is None else case_id)


def _work_conditions(work: UnitOfWork, search: CaseSearch) -> Iterator[ColumnElement[bool]]:
    """The conditions for the work on a case: its status, its assignee, and its due time."""
    if search.statuses:
        yield from _status_conditions(search.statuses)
    if search.assignee is not None:
        yield CaseRow.assignee == search.assignee
    if search.unassigned:
        yield CaseRow.assignee.is_(None)
    if search.handed:
        yield CaseRow.handed_by.is_not(None)
    if search.overdue:
        yield overdue(work.settings.resolve_hours, work.now_ms)


def _status_conditions(statuses: frozenset[CaseStatus]) -> Iterator[ColumnElement[bool]]:
    unclosed = statuses - {CaseStatus.CLOSED}
    if CaseStatus.CLOSED not in statuses or not unclosed:
        yield CaseRow.closed.is_(not unclosed)
    if len(unclosed) == 1:
        yield CaseRow.status.in_(sorted(each.value for each in statuses))


def cases_of(work: UnitOfWork, rows: Sequence[CaseRow]) -> list[Case]:
    """Build the read models, with the counts of their alerts."""
    verdict = case((AlertRow.correction == RETRACTED, RETRACTED), else_=MarkRow.verdict)
    counted = (
        select(AlertRow.case_id, AlertRow.rule_id, verdict, func.count())
        .join(MarkRow, MarkRow.alert_id == AlertRow.alert_id, isouter=True)
        .where(AlertRow.case_id.in_([row.case_id for row in rows]))
        .group_by(AlertRow.case_id, AlertRow.rule_id, verdict)
    )
    rules: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    verdicts: dict[int, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    for case_id, rule_id, found, count in work.session.execute(counted):
        assert case_id is not None  # the condition names cases
        rules[case_id][rule_id] += count
        verdicts[case_id][found] += count
    expiring = select(CaseRow.case_id).where(
        CaseRow.case_id.in_([row.case_id for row in rows]), CaseRow.closed.is_(False), untouched()
    )
    expires = set(work.session.scalars(expiring))
    amounts = _amounts(work, rows)
    kept_ms, hours = work.settings.bounds.alert_days * DAY_MS, work.settings.resolve_hours
    return [
        _case(
            row,
            rules[row.case_id],
            verdicts[row.case_id],
            row.last_alert_ms + kept_ms if row.case_id in expires else None,
            due_ms(row, hours),
            amounts.get(row.case_id),
        )
        for row in rows
    ]


def _amounts(work: UnitOfWork, rows: Sequence[CaseRow]) -> dict[int, str]:
    """The amounts at stake by case, in the decimals of the field."""
    field = work.reader.schema.field(amount_field(work.reader.schema) or "")
    if field is None:
        return {}
    once = (
        select(AlertRow.case_id, func.max(AlertPaymentRow.amount).label("amount"))
        .join(AlertPaymentRow, AlertPaymentRow.alert_id == AlertRow.alert_id)
        .where(AlertRow.case_id.in_([row.case_id for row in rows]), IN_EFFECT)
        .group_by(AlertRow.case_id, AlertPaymentRow.transaction_id)
        .subquery()
    )
    summed = select(once.c.case_id, func.sum(once.c.amount)).group_by(once.c.case_id)
    found = work.session.execute(summed).all()
    return {case_id: f"{amount:.{field.scale}f}" for case_id, amount in found if amount is not None}


def _case(
    row: CaseRow,
    rules: dict[int, int],
    verdicts: dict[str | None, int],
    expires_ms: int | None,
    due_at_ms: int | None,
    amount: str | None,
) -> Case:
    members: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            "case_id", "entity_field", "entity_value", "assignee", "handed_by", "alerts", "first_alert_ms",
            "last_alert_ms", "revision", "updated_ms", "updated_by",
        )
    }  # fmt: skip
    return Case(
        **members,
        status=CaseStatus(row.status),
        outcome=None if row.outcome is None else CaseOutcome(row.outcome),
        severity=URGENCIES[row.urgency],
        fraud=verdicts.get("FRAUD", 0),
        not_fraud=verdicts.get("NOT_FRAUD", 0),
        unreviewed=verdicts.get(None, 0),
        retracted=verdicts.get(RETRACTED, 0),
        expires_ms=expires_ms,
        due_ms=due_at_ms,
        rules=[
            CaseRule(rule_id=rule_id, alerts=count)
            for rule_id, count in sorted(rules.items(), key=lambda each: (-each[1], each[0]))
        ],
        amount=amount,
    )

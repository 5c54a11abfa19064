"""When a case is due: some hours after its first alert, by its severity. The time is computed, not stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import ColumnElement, and_, case, or_

from fraud_control.domain.alert_search import AlertSeverity
from fraud_control.domain.case_models import URGENCIES
from fraud_control.settings import ResolveHours
from fraud_control.store.case_models import CaseRow

_HOUR_MS: Final = 3_600_000
_NEVER_MS: Final = 2**53


def due_ms(row: CaseRow, hours: ResolveHours) -> int | None:
    """The time when a case is due, in epoch ms; None for a closed case, and for one without a known severity."""
    allowed_ms = _allowed_ms(hours).get(row.urgency)
    return None if row.closed or allowed_ms is None else row.first_alert_ms + allowed_ms


def due_order(hours: ResolveHours) -> ColumnElement[int]:
    """The time when a case is due, as a column. Cases without such a time come last."""
    return CaseRow.first_alert_ms + case(_allowed_ms(hours), value=CaseRow.urgency, else_=_NEVER_MS)


def overdue(hours: ResolveHours, now_ms: int) -> ColumnElement[bool]:
    """The condition for a case that is not closed and was due before now."""
    late = [
        and_(CaseRow.urgency == urgency, CaseRow.first_alert_ms < now_ms - allowed_ms)
        for urgency, allowed_ms in _allowed_ms(hours).items()
    ]
    return and_(CaseRow.closed.is_(False), or_(*late))


def _allowed_ms(hours: ResolveHours) -> Mapping[int, int]:
    """The time that a case may take, by its urgency."""
    return {
        urgency: getattr(hours, severity.value) * _HOUR_MS
        for urgency, severity in enumerate(URGENCIES)
        if severity is not AlertSeverity.OTHER
    }

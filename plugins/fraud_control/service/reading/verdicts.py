"""The verdicts of alerts: of an alert's mark and the label of its transaction, the newer one counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVarTuple

from sqlalchemy import ColumnElement, Select, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from fraud_control.store.alert_models import AlertPaymentRow, AlertRow, MarkRow
from fraud_control.store.label_models import LabelRow

_Columns = TypeVarTuple("_Columns")

_SAME_ALERT: Final = AlertPaymentRow.alert_id == AlertRow.alert_id


def verdict_of_alert() -> ColumnElement[str | None]:
    """The verdict of an alert, in a query `with_verdicts`: FRAUD, NOT_FRAUD, or null."""
    return _newer(LabelRow.verdict, MarkRow.verdict)


def with_verdicts(query: Select[*_Columns]) -> Select[*_Columns]:
    """Read a query from the alerts, with their payments, their marks, and the labels of the payments."""
    return _labelled(query.select_from(AlertRow).outerjoin(AlertPaymentRow, _SAME_ALERT))


def payments_with_verdicts(query: Select[*_Columns]) -> Select[*_Columns]:
    """Read a query from the payments of alerts, also of past weeks, with the marks and labels of these."""
    return _labelled(query.select_from(AlertPaymentRow))


def _labelled(query: Select[*_Columns]) -> Select[*_Columns]:
    return query.outerjoin(MarkRow, MarkRow.alert_id == AlertPaymentRow.alert_id).outerjoin(
        LabelRow, LabelRow.transaction_id == AlertPaymentRow.transaction_id
    )


def reviewed_alerts(
    session: Session, chosen: Sequence[ColumnElement[bool]], user: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the alerts of a condition that are fraud, and those that are not, each with the part that this user has
    reviewed."""
    verdict, is_own = verdict_of_alert(), _newer(LabelRow.author, MarkRow.who) == user
    columns = select(verdict, func.count(), func.sum(case((is_own, 1), else_=0)))
    reviewed = with_verdicts(columns).where(*chosen).group_by(verdict)
    verdicts = {found: (int(count), int(own)) for found, count, own in session.execute(reviewed)}
    return verdicts.get("FRAUD", (0, 0)), verdicts.get("NOT_FRAUD", (0, 0))


def _newer(of_label: InstrumentedAttribute[str], of_mark: InstrumentedAttribute[str]) -> ColumnElement[str | None]:
    is_newer = MarkRow.at_ms.is_(None) | (LabelRow.at_ms >= MarkRow.at_ms)
    return case((LabelRow.at_ms.is_not(None) & is_newer, of_label), else_=of_mark)

"""The verdicts of alerts: of an alert's mark and the label of its transaction, the newer one counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVarTuple

from sqlalchemy import ColumnElement, Select, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from fraud_control.store.alert_models import AlertRow, AlertValueRow, MarkRow
from fraud_control.store.label_models import LabelRow
from fraud_rules.model.schema import ID_FIELD, FieldType, TransactionSchema

__all__ = ["has_text_ids", "reviewed_alerts", "verdict_of_alert", "with_verdicts"]

_Columns = TypeVarTuple("_Columns")


def has_text_ids(schema: TransactionSchema) -> bool:
    """Whether transaction ids are texts. The alert index has these in lower case."""
    ids = schema.field(ID_FIELD)
    return ids is not None and ids.type is FieldType.STRING


def verdict_of_alert() -> ColumnElement[str | None]:
    """The verdict of an alert, in a query `with_verdicts`: FRAUD, NOT_FRAUD, or null."""
    return _newer(LabelRow.verdict, MarkRow.verdict)


def with_verdicts(query: Select[*_Columns], *, text_ids: bool) -> Select[*_Columns]:
    """Read a query from the alerts, with their marks, their transactions and the labels of these."""
    labelled = func.lower(LabelRow.transaction_id) if text_ids else LabelRow.transaction_id
    return (
        query.select_from(AlertRow)
        .outerjoin(MarkRow, MarkRow.alert_id == AlertRow.alert_id)
        .outerjoin(AlertValueRow, (AlertValueRow.alert_id == AlertRow.alert_id) & (AlertValueRow.field == ID_FIELD))
        .outerjoin(LabelRow, labelled == AlertValueRow.value)
    )


def reviewed_alerts(
    session: Session, chosen: Sequence[ColumnElement[bool]], user: str, *, text_ids: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the alerts of a condition that are fraud, and those that are not, each with the part that this user has
    reviewed."""
    verdict, is_own = verdict_of_alert(), _newer(LabelRow.author, MarkRow.who) == user
    columns = select(verdict, func.count(), func.sum(case((is_own, 1), else_=0)))
    reviewed = with_verdicts(columns, text_ids=text_ids).where(*chosen).group_by(verdict)
    verdicts = {found: (int(count), int(own)) for found, count, own in session.execute(reviewed)}
    return verdicts.get("FRAUD", (0, 0)), verdicts.get("NOT_FRAUD", (0, 0))


def _newer(of_label: InstrumentedAttribute[str], of_mark: InstrumentedAttribute[str]) -> ColumnElement[str | None]:
    is_newer = MarkRow.at_ms.is_(None) | (LabelRow.at_ms >= MarkRow.at_ms)
    return case((LabelRow.at_ms.is_not(None) & is_newer, of_label), else_=of_mark)

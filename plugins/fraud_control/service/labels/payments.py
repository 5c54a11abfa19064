"""The payments of alerts, which labels find again. They stay as long as labels do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from fraud_control.service.ids import batches
from fraud_control.store.alert_models import AlertPaymentRow
from fraud_rules.model.day import DAY_MS

KEPT_DAYS: Final = 400
"""The age at which labels leave the store: the largest number of days of a what-if. A label is never older than its
transaction, so no what-if up to the present needs an older one."""


def insert_of(session: Session, table: type[Any]) -> Any:
    """An insert into a table, of the database's dialect, which can say what to do with known rows."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def add_payments(session: Session, rows: Sequence[dict[str, object]]) -> None:
    """Add payments. A rebuilt detector may publish an alert again that has left the index."""
    if rows:
        session.execute(insert_of(session, AlertPaymentRow).on_conflict_do_nothing(), rows)


def prune_payments(session: Session, now_ms: int, most: int) -> int:
    """Delete payments that are too old, at most so many; return their number."""
    before = AlertPaymentRow.append_ms < now_ms - KEPT_DAYS * DAY_MS
    old = session.scalars(select(AlertPaymentRow.alert_id).where(before).limit(most)).all()
    for some in batches(old):
        session.execute(delete(AlertPaymentRow).where(AlertPaymentRow.alert_id.in_(some)))
    return len(old)

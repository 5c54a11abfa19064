"""Recent alarms in the store: one row for each alarm, from its first message to its last one.

API servers save their own alarms. The alarms of Airflow's tasks arrive by the topic `alarms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fraud_ops.alarms import RaisedAlarm
from fraud_ops.control_plane.store.alarm_models import AlarmRow
from fraud_ops.control_plane.store.database import Database
from fraud_ops.verdicts.verdict import Health

__all__ = ["KEPT_MS", "OLD_MS", "recent_alarms", "record_alarm"]

KEPT_MS: Final = 30 * 86_400_000
"""The age at which an alarm leaves the store."""

OLD_MS: Final = 86_400_000
"""An alarm whose last message is older than this is old. A further message then starts a new alarm."""

_MOST_KEPT: Final = 1_000
_VERDICTS: Final = frozenset({*(each.value for each in Health), "CRASH_LOOP"})


def record_alarm(session: Session, raised: RaisedAlarm, at_ms: int) -> None:
    """Save a message at its time: a new alarm, one more message of a known alarm, or its end."""
    alarm = raised.alarm
    names = _VERDICTS if alarm.name in _VERDICTS else {alarm.name}
    query = select(AlarmRow).where(
        AlarmRow.cleared_ms.is_(None), AlarmRow.detector == alarm.detector, AlarmRow.part == alarm.part
    )
    rows = session.scalars(query.where(AlarmRow.name.in_(names)).order_by(AlarmRow.id.desc())).all()
    if alarm.resolved:
        for row in rows:
            row.cleared_ms = at_ms
        return
    same = next((row for row in rows if row.name == alarm.name and at_ms - row.last_ms < OLD_MS), None)
    if same is None:
        same = AlarmRow(
            name=alarm.name, detector=alarm.detector, part=alarm.part, first_ms=at_ms, last_ms=at_ms, count=0
        )
        session.add(same)
    same.said, same.source, same.receivers = alarm.said, alarm.source, " ".join(raised.receivers)
    same.last_ms = max(same.last_ms, at_ms)
    same.count += 1
    _prune(session, at_ms)


def recent_alarms(database: Database) -> Sequence[AlarmRow]:
    """List the alarms that the store keeps, the newest message first."""
    query = select(AlarmRow).order_by(AlarmRow.last_ms.desc(), AlarmRow.id.desc()).limit(_MOST_KEPT)
    with database.reading() as session:
        return session.scalars(query).all()


def _prune(session: Session, now_ms: int) -> None:
    session.flush()
    session.execute(delete(AlarmRow).where(AlarmRow.last_ms < now_ms - KEPT_MS))
    newest = select(AlarmRow.last_ms).order_by(AlarmRow.last_ms.desc()).offset(_MOST_KEPT).limit(1)
    beyond = session.scalar(newest)
    if beyond is not None:
        session.execute(delete(AlarmRow).where(AlarmRow.last_ms <= beyond))

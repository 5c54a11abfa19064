"""Recent alarms in the store: one row for each alarm, from its first message to its last one.

API servers report the state of their own alarms (`AlarmDesk`). The alarms of Airflow's tasks arrive by the topic
`alarms`. The outbox of notifications delivers the messages, so that a receiver that is down for a while loses none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from fraud_ops.alarms import Alarm, RaisedAlarm
from fraud_ops.control_plane.service.notifications.messages import alarm_content
from fraud_ops.control_plane.service.notifications.outbox import add_delivery
from fraud_ops.control_plane.store.alarm_models import AlarmRow
from fraud_ops.control_plane.store.database import Database
from fraud_ops.verdicts.verdict import Health
from fraud_rules.errors import FraudError

__all__ = [
    "ALARM_RECEIVER", "KEPT_MS", "OLD_MS", "REPEAT_MS", "AlarmDesk", "deliver_alarm", "recent_alarms", "record_alarm",
]  # fmt: skip

_log = logging.getLogger(__name__)

REPEAT_MS: Final = 6 * 3_600_000
"""How long a standing alarm is quiet before it is sent again."""

ALARM_RECEIVER: Final = "alarm:"
"""The beginning of the name of a receiver of alarms in the outbox; the name of its Airflow connection follows."""

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


class AlarmDesk:
    """The standing alarms of the API servers. A check reports its alarm each time, with `resolved` for its absence. The
    store decides whether that is news. So an alarm is sent once, also after a restart; it is repeated slowly, and its
    end is reported by the process that finds it. Several threads may use it.

    `receivers` names the connections that exist. `direct` sends an alarm if the store does not answer.
    """

    def __init__(
        self,
        database: Database,
        receivers: Callable[[], Sequence[str]],
        direct: Callable[[Alarm], object],
        clock_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._receivers = receivers
        self._direct = direct
        self._clock_ms = clock_ms

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        """Report the state of an alarm. With `again`, a standing alarm is sent anew. Raises nothing."""
        now_ms = self._clock_ms()
        try:
            with self._database.reading() as session:
                if not _is_news(session, alarm, now_ms, again=again):
                    return
            names = tuple(self._receivers())
            with self._database.writing() as session:
                if _is_news(session, alarm, now_ms, again=again):  # no other process has sent it meanwhile
                    record_alarm(session, RaisedAlarm(alarm, names), now_ms)
                    deliver_alarm(session, alarm, names, now_ms)
        except FraudError as error:
            _log.warning("the store cannot keep the alarm %s: %s", alarm.name, error)
            if not alarm.resolved:
                self._direct(alarm)

    def open_parts(self, name: str) -> frozenset[str]:
        """The parts of the open alarms with a name. Raises Unavailable."""
        query = select(AlarmRow.part).where(AlarmRow.cleared_ms.is_(None), AlarmRow.name == name)
        with self._database.reading() as session:
            return frozenset(session.scalars(query))


def deliver_alarm(session: Session, alarm: Alarm, receivers: Iterable[str], now_ms: int) -> None:
    """Add the deliveries of a message to the connections with these names."""
    content = alarm_content(alarm)
    for name in receivers:
        add_delivery(session, None, ALARM_RECEIVER + name, content, now_ms, now_ms)


def _is_news(session: Session, alarm: Alarm, now_ms: int, *, again: bool) -> bool:
    query = select(func.max(AlarmRow.last_ms)).where(
        AlarmRow.cleared_ms.is_(None),
        AlarmRow.detector == alarm.detector,
        AlarmRow.part == alarm.part,
        AlarmRow.name == alarm.name,
    )
    last_ms = session.scalar(query)
    if alarm.resolved:
        return last_ms is not None
    return again or last_ms is None or now_ms - last_ms >= REPEAT_MS


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

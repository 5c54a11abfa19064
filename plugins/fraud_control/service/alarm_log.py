"""Recent alarms in the store: one row for each alarm, from its first message to its last one.

Servers report the state of their own alarms (`AlarmDesk`). The alarms of Airflow's tasks arrive by the topic
`alarms`. The store decides whether a report is news: the beginning of an alarm, a slow repetition, or its end. The
outbox of notifications delivers the news, so that a receiver that is down for a while loses none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fraud_control.service.notifications.messages import alarm_content
from fraud_control.service.notifications.outbox import add_delivery, waiting_rows
from fraud_control.store.alarm_models import AlarmRow
from fraud_control.store.database import Database
from fraud_ops.alarms import REPEAT_MS, Alarm, RaisedAlarm, decode_alarm
from fraud_ops.verdicts.verdict import Health
from fraud_rules.errors import FraudError
from fraud_rules.runtime.clock import utc_text

_log = logging.getLogger(__name__)

ALARM_RECEIVER: Final = "alarm:"
"""The beginning of the name of a receiver of alarms in the outbox; the name of its connection follows."""

KEPT_MS: Final = 30 * 86_400_000
"""The age at which an alarm leaves the store."""

OLD_MS: Final = 86_400_000
"""An alarm whose last message is older than this is old. A further message then starts a new alarm."""

_UNSENT_PAUSE_MS: Final = 60_000
"""The pause before the next direct attempt, if no connection accepted the alarm."""

_MOST_KEPT: Final = 1_000
_VERDICTS: Final = frozenset({*(each.value for each in Health), "CRASH_LOOP"})


def record_alarm(session: Session, raised: RaisedAlarm, at_ms: int) -> None:
    """Save a report at its time: a new alarm, one more report of a known alarm, or its end."""
    alarm = raised.alarm
    rows = _open_rows(session, alarm)
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


def admit_alarm(
    session: Session, raised: RaisedAlarm, receivers: Sequence[str], at_ms: int, now_ms: int, *, again: bool = False
) -> None:
    """Save a report of the time `at_ms`, and add the deliveries of its news to the `receivers`.

    The receivers of `raised` have accepted the alarm without the outbox, because its process could not reach it. They
    do not get the alarm a second time, but they get its end, also if the store has not seen its beginning.
    """
    alarm, told = raised.alarm, frozenset(raised.receivers)
    news = _news(session, alarm, at_ms, again=again)
    if alarm.resolved and not news:
        _deliver(session, alarm, [each for each in receivers if each in told], now_ms)
        return
    record_alarm(session, RaisedAlarm(alarm, tuple(receivers)), at_ms)
    untold = [each for each in receivers if alarm.resolved or each not in told]
    for message in news:
        _deliver(session, message, untold, now_ms)


@dataclass(frozen=True, slots=True)
class _Direct:
    """The connections that have accepted an alarm while the store did not answer, and the time of the attempt."""

    receivers: tuple[str, ...]
    at_ms: int


class AlarmDesk:
    """The standing alarms of the servers. A check reports its alarm each time, with `resolved` for its absence. The
    store decides whether that is news. So an alarm is sent once, also after a restart; it is repeated slowly, and its
    end is reported by the process that finds it. Several threads may use it.

    `receivers` names the connections that exist. `direct` sends an alarm if the store does not answer, and returns the
    names of the connections that accepted it.
    """

    def __init__(
        self,
        database: Database,
        receivers: Callable[[], Sequence[str]],
        direct: Callable[[Alarm], Sequence[str]],
        clock_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._receivers = receivers
        self._direct = direct
        self._clock_ms = clock_ms
        self._sent_directly: dict[tuple[str, str], _Direct] = {}

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        """Report the state of an alarm. With `again`, a standing alarm is sent anew.

        Raises nothing but the errors of `receivers`.
        """
        now_ms, key = self._clock_ms(), (alarm.name, alarm.part)
        told = self._sent_directly.get(key)
        try:
            with self._database.reading() as session:
                if told is None and not _news(session, alarm, now_ms, again=again):
                    return
            names = self._receivers()
            with self._database.writing() as session:
                if told is not None or _news(session, alarm, now_ms, again=again):  # no other process was faster
                    raised = RaisedAlarm(alarm, () if told is None else told.receivers)
                    admit_alarm(session, raised, names, now_ms, now_ms, again=again)
            self._sent_directly.pop(key, None)
        except FraudError as error:
            _log.warning("the store cannot keep the alarm %s: %s", alarm.name, error)
            pause_ms = REPEAT_MS if told is not None and told.receivers else _UNSENT_PAUSE_MS
            if not alarm.resolved and (told is None or again or now_ms - told.at_ms >= pause_ms):
                self._sent_directly[key] = _Direct(tuple(self._direct(alarm)), now_ms)

    def open_parts(self, name: str, *, silent_ms: int = 0) -> frozenset[str]:
        """The parts of the open alarms with a name whose last report is that old. Raises Unavailable."""
        last_ms = self._clock_ms() - silent_ms
        query = select(AlarmRow.part).where(
            AlarmRow.cleared_ms.is_(None), AlarmRow.name == name, AlarmRow.last_ms <= last_ms
        )
        with self._database.reading() as session:
            return frozenset(session.scalars(query))


def _news(session: Session, alarm: Alarm, at_ms: int, *, again: bool) -> Sequence[Alarm]:
    """The messages that a report requires: the alarm, if it has just begun or is due again, or the end of each open
    alarm that it ends.

    An alarm is due again once in each interval of REPEAT_MS since its beginning, so its row needs no time of sending.
    """
    rows = _open_rows(session, alarm)
    if alarm.resolved:
        return [replace(alarm, name=name) for name in dict.fromkeys(row.name for row in rows)]
    row = next((row for row in rows if row.name == alarm.name and at_ms - row.last_ms < OLD_MS), None)
    due = row is None or (at_ms - row.first_ms) // REPEAT_MS > (row.last_ms - row.first_ms) // REPEAT_MS
    return [alarm] if due or again else []


def _open_rows(session: Session, alarm: Alarm) -> Sequence[AlarmRow]:
    """The open alarms about the same part, the newest first: of the same name, or any verdict for a verdict."""
    names = _VERDICTS if alarm.name in _VERDICTS else {alarm.name}
    query = select(AlarmRow).where(
        AlarmRow.cleared_ms.is_(None), AlarmRow.detector == alarm.detector, AlarmRow.part == alarm.part
    )
    return session.scalars(query.where(AlarmRow.name.in_(names)).order_by(AlarmRow.id.desc())).all()


def _deliver(session: Session, alarm: Alarm, receivers: Iterable[str], now_ms: int) -> None:
    """Add the deliveries of a message. It replaces a waiting message about the same alarm and continues its attempts. A
    receiver that comes back could otherwise get the older message last.
    """
    for receiver in (ALARM_RECEIVER + name for name in receivers):
        message, attempts, due_ms = alarm, 0, now_ms
        for row in waiting_rows(session, receiver):
            older = decode_alarm(row.data.encode()).alarm
            if (older.name, older.detector, older.part) == (alarm.name, alarm.detector, alarm.part):
                if alarm.resolved and not older.resolved:
                    message = replace(alarm, said=f"{alarm.said}; raised at {utc_text(row.created_ms)}: {older.said}")
                attempts, due_ms = row.attempts, max(now_ms, row.due_ms)
                session.delete(row)
        add_delivery(session, None, receiver, alarm_content(message), now_ms, due_ms).attempts = attempts


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

"""Sends the outbox of notifications, and adds requests for approval and digests to it. One process at a time does so.

A delivery is marked after its receiver has accepted it. So each notification arrives at least once: if the process ends
in between, the next leader sends it again, with the same id. Each receiver has its own thread, so a receiver that hangs
delays no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from fraud_control.background_thread import LeadingThread
from fraud_control.service.alarm_log import ALARM_RECEIVER
from fraud_control.service.notifications.digest import add_digests, due_digests, read_digests
from fraud_control.service.notifications.intake import notify_approvals, unnotified_approvals
from fraud_control.service.notifications.outbox import (
    SendAttempt,
    due_receivers,
    message_of,
    next_due,
    prune,
    record_attempt,
)
from fraud_control.store.database import Database
from fraud_control.store.notification_models import DeliveryRow
from fraud_ops.alarms import Alarm, decode_alarm
from fraud_ops.notifications import Message, Receiver, ReceiverKind

Send = Callable[[Receiver, Message], str | None]
"""Sends a message and returns the fault, None if the receiver has accepted it. Raises nothing."""

SendAlarm = Callable[[str, Alarm], str | None]
"""Sends an alarm through the connection with a name, and returns the fault as `Send` does. Raises nothing."""

_POLL_INTERVAL_S: Final = 0.5
_PRUNE_EVERY_S: Final = 60.0
_AT_ONCE: Final = 20
_ALARM_CONNECTIONS: Final = 2


class Notifier(LeadingThread):
    """Sends deliveries while this process leads. `receivers` are the kinds of the receivers by name."""

    def __init__(
        self,
        database: Database,
        receivers: Mapping[str, ReceiverKind],
        send: Send,
        clock_ms: Callable[[], int],
        send_alarm: SendAlarm = lambda name, alarm: "this process cannot send alarms",
    ) -> None:
        super().__init__("fraud-control-notifier", lambda: database.leadership("notifier"), _POLL_INTERVAL_S)
        self._database = database
        self._receivers = receivers
        self._send = send
        self._send_alarm = send_alarm
        self._clock_ms = clock_ms
        self._threads = ThreadPoolExecutor(len(receivers) + _ALARM_CONNECTIONS, "fraud-control-notify")
        self._running: dict[str, Future[Sequence[SendAttempt]]] = {}
        self._pruned_s = 0.0

    def stop(self) -> None:
        """Stop the thread. Deliveries that are not recorded yet are sent again by the next leader."""
        super().stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def step(self) -> None:
        """Add due events, record the attempts that have ended, and start the next ones. Raises Unavailable."""
        now_ms = self._clock_ms()
        self._add_events(now_ms)
        self._record(now_ms)
        with self._database.reading() as session:
            idle = [each for each in due_receivers(session, now_ms) if each not in self._running]
            due = {receiver: next_due(session, receiver, now_ms, _AT_ONCE) for receiver in idle}
        for receiver, rows in due.items():
            self._running[receiver] = self._threads.submit(self._send_all, receiver, rows)
        self._prune(now_ms)

    def _add_events(self, now_ms: int) -> None:
        with self._database.reading() as session:
            if not unnotified_approvals(session) and not due_digests(session, now_ms):
                return
            digests = read_digests(session, now_ms)
        with self._database.writing() as session:
            notify_approvals(session, now_ms)
            add_digests(session, digests, now_ms)

    def _record(self, now_ms: int) -> None:
        ended = {receiver: future for receiver, future in self._running.items() if future.done()}
        if ended:
            with self._database.writing() as session:
                for future in ended.values():
                    for attempt in future.result():
                        record_attempt(session, attempt, now_ms)
        for receiver in ended:
            del self._running[receiver]

    def _send_all(self, name: str, rows: Sequence[DeliveryRow]) -> Sequence[SendAttempt]:
        """Send deliveries to one receiver, up to the first failure."""
        attempts: list[SendAttempt] = []
        for row in rows:
            fault = self._sent(name, row)
            attempts.append(SendAttempt(row.id, fault))
            if fault is not None or self._stop.is_set():
                break
        return attempts

    def _sent(self, name: str, row: DeliveryRow) -> str | None:
        if name.startswith(ALARM_RECEIVER):
            return self._send_alarm(name.removeprefix(ALARM_RECEIVER), decode_alarm(row.data.encode()).alarm)
        kind = self._receivers.get(name)
        if kind is None:
            return "the settings no longer have this receiver"
        return self._send(Receiver(name, kind), message_of(row))

    def _prune(self, now_ms: int) -> None:
        now_s = time.monotonic()
        if now_s - self._pruned_s >= _PRUNE_EVERY_S:
            self._pruned_s = now_s
            with self._database.writing() as session:
                prune(session, now_ms)

"""Leadership: a row of the store with a lease. It needs no session of the database, so it works behind PgBouncer in
transaction mode and holds no connection.

The process that leads renews its lease in a thread of its own, so long work does not cost the leadership. The lease
ends by the database's clock. A process takes over as the only writer, and each write of a leader first checks, as the
only writer too, that the row still names it. So a process that has lost its leadership, for example while it was
suspended, changes nothing.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, String, delete, literal_column, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from fraud_control.domain.errors import LeadershipLost, Unavailable
from fraud_control.store.models import Base
from fraud_rules.runtime.clock import steady_ms

LEASE_MS: Final = 15_000
_RENEW_S: Final = 3.0
_NAME_CHARS: Final = 64
_HOLDER_CHARS: Final = 32
_NOW_MS: Final = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}

_Transaction = Callable[[], AbstractContextManager[Session]]

_log = logging.getLogger(__name__)
_led: ContextVar[Leadership | None] = ContextVar("_led", default=None)
"""The leadership of the present thread."""


class LeadershipRow(Base):
    """A leadership. `holder` identifies one leadership of one process, and `until_ms` is the end of its lease."""

    __tablename__ = "leaderships"

    name: Mapped[str] = mapped_column(String(_NAME_CHARS), primary_key=True)
    holder: Mapped[str] = mapped_column(String(_HOLDER_CHARS))
    until_ms: Mapped[int]


class Leadership:
    """Whether this process leads. Its truth value is the answer."""

    def __init__(self, name: str, *, led: bool, holder: str = "", until_ms: int | None = None) -> None:
        """`until_ms` is the end of the lease by the steady clock; None for a lease without an end."""
        self.name = name
        self.holder = holder
        self._led = led
        self._until_ms = until_ms

    def __bool__(self) -> bool:
        return self._led

    def check(self) -> None:
        """Check that this process still leads. Raises LeadershipLost if not."""
        if self._led and self._until_ms is not None and steady_ms() >= self._until_ms:
            raise self.loss()

    def loss(self) -> LeadershipLost:
        """The error of a process that has lost this leadership."""
        return LeadershipLost(f"this process has lost the leadership {self.name}: another process may lead")

    def extend(self, until_ms: int) -> None:
        """Move the end of the lease."""
        self._until_ms = until_ms


class Leases:
    """The leaderships of this process in one store. Several threads may use it."""

    def __init__(self, reading: _Transaction, writing: _Transaction, renewing: _Transaction) -> None:
        """`writing` opens a transaction as the only writer, and `renewing` one that need not be."""
        self._reading = reading
        self._writing = writing
        self._renewing = renewing
        self._lock = threading.Lock()
        self._held: dict[str, Leadership] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def lead(self, name: str) -> Iterator[Leadership]:
        """Lead, if no process leads. The end of the block ends the leadership. Raises Unavailable, StoreBusy."""
        lead = self._acquired(name)
        if not lead:
            yield lead
            return
        self._hold(lead)
        led = _led.set(lead)
        try:
            yield lead
        finally:
            _led.reset(led)
            self._release(lead)

    def close(self) -> None:
        """Stop to renew."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def renew(self) -> None:
        """Renew the leases once. Raises Unavailable."""
        with self._lock:
            held = dict(self._held)
        if not held:
            return
        start_ms = steady_ms()
        with self._renewing() as session:
            ours = LeadershipRow.holder.in_(held)
            session.execute(update(LeadershipRow).where(ours).values(until_ms=_now_ms(session) + LEASE_MS))
            renewed = set(session.scalars(select(LeadershipRow.holder).where(ours)))
        for holder, lead in held.items():
            lead.extend(start_ms + LEASE_MS if holder in renewed else start_ms)

    def _acquired(self, name: str) -> Leadership:
        standby = Leadership(name, led=False)
        with self._reading() as session:
            if _is_held(session, name):
                return standby
        start_ms, holder = steady_ms(), uuid.uuid4().hex
        with self._writing() as session:
            if _is_held(session, name):
                return standby
            until_ms = session.scalar(select(_now_ms(session))) or 0
            session.merge(LeadershipRow(name=name, holder=holder, until_ms=until_ms + LEASE_MS))
        return Leadership(name, led=True, holder=holder, until_ms=start_ms + LEASE_MS)

    def _hold(self, lead: Leadership) -> None:
        with self._lock:
            self._held[lead.holder] = lead
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_renewing, name="fraud-control-leases", daemon=True)
                self._thread.start()

    def _release(self, lead: Leadership) -> None:
        with self._lock:
            self._held.pop(lead.holder)
        with suppress(Unavailable), self._renewing() as session:  # else the lease ends by itself
            session.execute(delete(LeadershipRow).where(LeadershipRow.holder == lead.holder))

    def _keep_renewing(self) -> None:
        while not self._closed.wait(_RENEW_S):
            try:
                self.renew()
            except Unavailable as error:
                _log.warning("the leases of the control plane could not be renewed: %s", error)
            except Exception:  # noqa: BLE001 -- the next attempt may succeed before the leases end
                _log.exception("the leases of the control plane could not be renewed")


def check_fence(session: Session) -> None:
    """Check, as the only writer, that a thread which has begun to lead still leads. Raises LeadershipLost."""
    lead = _led.get()
    if lead is None:
        return
    if session.scalar(select(LeadershipRow.holder).where(LeadershipRow.name == lead.name)) != lead.holder:
        raise lead.loss()


def _is_held(session: Session, name: str) -> bool:
    """Whether a lease runs. One that ends too late is from before the clock was set back."""
    now_ms = _now_ms(session)
    runs = LeadershipRow.until_ms > now_ms, LeadershipRow.until_ms <= now_ms + LEASE_MS
    return session.scalar(select(LeadershipRow.name).where(LeadershipRow.name == name, *runs)) is not None


def _now_ms(session: Session) -> ColumnElement[int]:
    """The time of the database."""
    return literal_column(_NOW_MS[session.get_bind().dialect.name], BigInteger)

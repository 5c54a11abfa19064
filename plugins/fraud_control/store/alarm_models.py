"""The table of recent alarms."""

from __future__ import annotations

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import Base

ALARM_NAME_CHARS = 64


class AlarmRow(Base):
    """An alarm, from its first report to its last one. `receivers` has the names of the connections that get its
    messages, with spaces in between. `cleared_ms` is the time at which the end of the alarm was reported.
    """

    __tablename__ = "alarms"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(ALARM_NAME_CHARS))
    detector: Mapped[str]
    part: Mapped[str]
    said: Mapped[str]
    source: Mapped[str]
    receivers: Mapped[str]
    first_ms: Mapped[int]
    last_ms: Mapped[int] = mapped_column(index=True)
    count: Mapped[int] = mapped_column("messages", Integer)
    cleared_ms: Mapped[int | None]

"""The tables of the alert index, and of what users saved about alerts: marks, snoozes and searches."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Float, Index, Integer, SmallInteger, String, or_
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import USER_CHARS, Base

ID_CHARS = 64
FIELD_CHARS = 64
VALUE_CHARS = 256
SEARCH_NAME_CHARS = 80

RETRACTED: Final = "RETRACTED"
"""The correction of an alert that does not count anymore."""


class AlertRow(Base):
    """An alert with its place in the topics. `key` is canonical JSON, `json` the published JSON, compressed.

    `severity_rank` orders the severities; 0 stands for an unknown one. `amount` is the triggering payment's
    first decimal. `correction` is ADDED or RETRACTED, from `corrected_ms`. `case_id` is null for an alert without a
    case.
    """

    __tablename__ = "alerts"
    __table_args__ = (
        Index("ix_alerts_time", "append_ms", "source", "record_offset"),
        Index("ix_alerts_rule", "rule_id", "append_ms"),
        Index("ix_alerts_severity", "severity_rank", "append_ms"),
        Index(
            "ix_alerts_amount", "amount", "append_ms", "source", "record_offset", "severity_rank", "rule_id", "shadow"
        ),
        Index("ix_alerts_case", "case_id", "append_ms", "source", "record_offset"),
    )

    alert_id: Mapped[str] = mapped_column(String(ID_CHARS), primary_key=True)
    append_ms: Mapped[int]
    source: Mapped[int] = mapped_column(SmallInteger)
    offset: Mapped[int] = mapped_column("record_offset")
    rule_id: Mapped[int]
    severity_rank: Mapped[int] = mapped_column(SmallInteger)
    amount: Mapped[float | None] = mapped_column(Float)
    shadow: Mapped[bool]
    key: Mapped[str]
    correction: Mapped[str | None] = mapped_column(String(16))
    corrected_ms: Mapped[int | None]
    case_id: Mapped[int | None] = mapped_column(Integer)
    json: Mapped[bytes] = mapped_column(deferred=True)


IN_EFFECT: Final = or_(AlertRow.correction.is_(None), AlertRow.correction != RETRACTED)
"""The condition for an alert that counts."""


class AlertValueRow(Base):
    """A value of an alert: of its key (`in_key`), or an id or text of the triggering payment. `value` is lower case."""

    __tablename__ = "alert_values"
    __table_args__ = (Index("ix_alert_values_value", "value", "field", "append_ms", "alert_id"),)

    alert_id: Mapped[str] = mapped_column(String(ID_CHARS), primary_key=True)
    field: Mapped[str] = mapped_column(String(FIELD_CHARS), primary_key=True)
    value: Mapped[str] = mapped_column(
        String(VALUE_CHARS).with_variant(String(VALUE_CHARS, collation="C"), "postgresql")  # prefixes are ranges
    )
    in_key: Mapped[bool]
    append_ms: Mapped[int]


class AlertPaymentRow(Base):
    """The payment of an alert. The row stays as long as labels do, so that a late label finds the alerts of past weeks.

    `amount` is that of the alert. `in_effect` is false after a retraction.
    """

    __tablename__ = "alert_payments"
    __table_args__ = (
        Index("ix_alert_payments_transaction", "transaction_id"),
        Index("ix_alert_payments_time", "append_ms"),
    )

    alert_id: Mapped[str] = mapped_column(String(ID_CHARS), primary_key=True)
    transaction_id: Mapped[str] = mapped_column(String(VALUE_CHARS))
    rule_id: Mapped[int]
    rule_version: Mapped[int]
    append_ms: Mapped[int]
    amount: Mapped[float | None] = mapped_column(Float)
    shadow: Mapped[bool]
    in_effect: Mapped[bool]


class SavedSearchRow(Base):
    """A search of alerts that a user saved under a name. `query` is the query string of the page's address."""

    __tablename__ = "saved_searches"

    user: Mapped[str] = mapped_column("user_name", String(USER_CHARS), primary_key=True)
    name: Mapped[str] = mapped_column(String(SEARCH_NAME_CHARS), primary_key=True)
    query: Mapped[str]
    at_ms: Mapped[int]


class MarkRow(Base):
    """A user's mark on an alert."""

    __tablename__ = "marks"
    __table_args__ = (
        Index("ix_marks_rule", "rule_id", "verdict", "rule_version"),
        Index("ix_marks_verdict", "verdict", "at_ms"),
    )

    alert_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    rule_id: Mapped[int]
    rule_version: Mapped[int]
    verdict: Mapped[str] = mapped_column(String(16))
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    at_ms: Mapped[int]


class SnoozeRow(Base):
    """A snooze; `key` is canonical JSON."""

    __tablename__ = "snoozes"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    rule_id: Mapped[int] = mapped_column(index=True)
    key: Mapped[str | None]
    until_ms: Mapped[int] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    reason: Mapped[str]
    at_ms: Mapped[int]

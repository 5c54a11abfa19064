"""The tables of cases and of their history."""

from __future__ import annotations

from sqlalchemy import Index, Integer, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.alert_models import FIELD_CHARS, VALUE_CHARS
from fraud_control.store.models import USER_CHARS, Base


class CaseRow(Base):
    """A case: the live alerts of one entity, up to its closing.

    `open_entity` is FIELD:VALUE, and null after the closing, so an entity has at most one case that is not closed.
    `handed_by` is the user who assigned the case to another one. `urgency` orders the severities from 0 (critical).
    `alerts` counts the alerts that joined the case. `revision` counts the changes of status and assignee. `updated_ms`
    and `updated_by` are null until a person works on the case.
    """

    __tablename__ = "cases"
    __table_args__ = (
        Index("ix_cases_urgency", "closed", "urgency", "case_id"),
        Index("ix_cases_newest", "closed", "last_alert_ms", "case_id"),
        Index("ix_cases_assignee", "assignee", "closed", "urgency", "case_id"),
        Index("ix_cases_entity", "entity_value", "entity_field", "case_id"),
        Index("ix_cases_open_entity", "open_entity", unique=True),
    )

    case_id: Mapped[int] = mapped_column(Integer, primary_key=True)
    entity_field: Mapped[str] = mapped_column(String(FIELD_CHARS))
    entity_value: Mapped[str] = mapped_column(
        String(VALUE_CHARS).with_variant(String(VALUE_CHARS, collation="C"), "postgresql")  # prefixes are ranges
    )
    open_entity: Mapped[str | None] = mapped_column(String(FIELD_CHARS + 1 + VALUE_CHARS))
    status: Mapped[str] = mapped_column(String(8))
    closed: Mapped[bool]
    outcome: Mapped[str | None] = mapped_column(String(16))
    assignee: Mapped[str | None] = mapped_column(String(USER_CHARS))
    handed_by: Mapped[str | None] = mapped_column(String(USER_CHARS))
    urgency: Mapped[int] = mapped_column(SmallInteger)
    alerts: Mapped[int]
    first_alert_ms: Mapped[int]
    last_alert_ms: Mapped[int]
    revision: Mapped[int]
    updated_ms: Mapped[int | None]
    updated_by: Mapped[str | None] = mapped_column(String(USER_CHARS))


class CaseEventRow(Base):
    """An event of a case: a comment, or a change with an optional comment. `detail` is a JSON object."""

    __tablename__ = "case_events"
    __table_args__ = (Index("ix_case_events_case", "case_id", "event_id"),)

    event_id: Mapped[int] = mapped_column(Integer, primary_key=True)
    case_id: Mapped[int] = mapped_column(Integer)
    at_ms: Mapped[int]
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    action: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str]
    comment: Mapped[str]

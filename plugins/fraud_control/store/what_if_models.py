"""The table of what-ifs that users and requests for approval started."""

from __future__ import annotations

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import USER_CHARS, Base

WHAT_IF_ID_CHARS = 12


class WhatIfRow(Base):
    """A what-if; `number` is its place in the queue. `rule_id` names the rule whose request for approval started it,
    and is null for a what-if of a user. `question` is JSON, and so is `result`, in the form that the command printed.
    """

    __tablename__ = "what_ifs"

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    id: Mapped[str] = mapped_column(String(WHAT_IF_ID_CHARS), unique=True, index=True)
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    rule_id: Mapped[int | None]
    question: Mapped[bytes]
    status: Mapped[str] = mapped_column(String(8), index=True)
    at_ms: Mapped[int]
    result: Mapped[bytes | None] = mapped_column(deferred=True)
    said: Mapped[str | None]

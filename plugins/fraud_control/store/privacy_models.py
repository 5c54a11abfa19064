"""The tables of pseudonyms, and of the anchors of the audit log."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.alert_models import VALUE_CHARS
from fraud_control.store.models import Base


class PseudonymRow(Base):
    """The random key of the pseudonym of an id. Without the row, no one can tell whose the pseudonym was."""

    __tablename__ = "pseudonyms"

    value: Mapped[str] = mapped_column(String(VALUE_CHARS), primary_key=True)
    secret: Mapped[bytes]


class AnchorRow(Base):
    """The number and hash of the last row of the audit log that retention has removed; the newest anchor counts.

    The audit log starts after it. Triggers permit the deletion of the rows up to it.
    """

    __tablename__ = "audit_anchors"

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[str] = mapped_column(String(64))
    at_ms: Mapped[int]

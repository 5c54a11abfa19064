"""The table of labels of transactions."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import USER_CHARS, Base
from fraud_rules.batch.whatif.labels import ORIGIN_CHARS

LABELLED_ID_CHARS = 256


class LabelRow(Base):
    """The newest label of a transaction that came from a file or from the topic `labels`. `author` is the user who
    uploaded the file, or the topic. `origin` is the source that the line names, empty without one. `at_ms` is the time
    of the label, and `saved_ms` that of its arrival.
    """

    __tablename__ = "labels"
    __table_args__ = (Index("ix_labels_verdict", "source", "origin", "verdict", "at_ms"),)

    transaction_id: Mapped[str] = mapped_column(String(LABELLED_ID_CHARS), primary_key=True)
    verdict: Mapped[str] = mapped_column(String(16))
    source: Mapped[str] = mapped_column(String(8))
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    origin: Mapped[str] = mapped_column(String(ORIGIN_CHARS))
    at_ms: Mapped[int] = mapped_column(index=True)
    saved_ms: Mapped[int] = mapped_column(index=True)

"""The requests that clients named by an Idempotency-Key, with their answers.

A change claims the key of its request in its own transaction. So a request that is sent twice changes nothing twice,
also if the process ends between the change and its answer.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, Integer, String, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from fraud_control.domain.errors import RequestRefused
from fraud_control.store.models import USER_CHARS, Base

KEY_CHARS: Final = 128
KEPT_MS: Final = 86_400_000
MOST_OF_USER: Final = 1_000
_DIGEST_CHARS: Final = 64


class SubmissionRow(Base):
    """A request of a user that changed something. `digest` identifies its content. `status` is null until its answer is
    known; `answer` is null for an answer that is too long to keep.
    """

    __tablename__ = "submissions"
    __table_args__ = (Index("ix_submissions_time", "who", "at_ms"),)

    who: Mapped[str] = mapped_column(String(USER_CHARS), primary_key=True)
    key: Mapped[str] = mapped_column("request_key", String(KEY_CHARS), primary_key=True)
    digest: Mapped[str] = mapped_column(String(_DIGEST_CHARS))
    at_ms: Mapped[int] = mapped_column(index=True)
    status: Mapped[int | None] = mapped_column(Integer)
    headers: Mapped[str | None]
    answer: Mapped[bytes | None]


@dataclass(frozen=True, slots=True)
class Submission:
    """A request with an Idempotency-Key."""

    who: str
    key: str
    digest: str


current: ContextVar[Submission | None] = ContextVar("current", default=None)
"""The submission that the present thread executes, until a change has claimed its key."""


def find(session: Session, submission: Submission, now_ms: int) -> SubmissionRow | None:
    """Find the same submission if it was executed before. Raises RequestRefused if its key named another request."""
    row = session.get(SubmissionRow, (submission.who, submission.key))
    if row is None or row.at_ms < now_ms - KEPT_MS:
        return None
    if row.digest != submission.digest:
        raise RequestRefused("this Idempotency-Key named another request before: use a new key for each request")
    return row


def claim(session: Session, now_ms: int) -> None:
    """Claim the key of the present submission, if there is one, in the transaction of its first change. Raises
    RequestRefused if the submission was executed before.
    """
    submission = current.get()
    if submission is None:
        return
    _forget_old(session, submission.who, now_ms)
    if find(session, submission, now_ms) is not None:
        raise RequestRefused("a request with this Idempotency-Key was executed before: reload to see its result")
    session.add(SubmissionRow(who=submission.who, key=submission.key, digest=submission.digest, at_ms=now_ms))
    current.set(None)


def keep(
    session: Session, submission: Submission, now_ms: int, status: int, headers: str, answer: bytes | None
) -> None:
    """Keep the answer of a submission."""
    row = session.get(SubmissionRow, (submission.who, submission.key))
    if row is None:
        row = SubmissionRow(who=submission.who, key=submission.key, digest=submission.digest, at_ms=now_ms)
        session.add(row)
    row.status, row.headers, row.answer = status, headers, answer


def _forget_old(session: Session, who: str, now_ms: int) -> None:
    """Forget submissions after KEPT_MS, and those of a user beyond the newest ones."""
    session.execute(delete(SubmissionRow).where(SubmissionRow.at_ms < now_ms - KEPT_MS))
    newest = select(SubmissionRow.at_ms).where(SubmissionRow.who == who).order_by(SubmissionRow.at_ms.desc())
    last = session.scalar(newest.offset(MOST_OF_USER - 1).limit(1))
    if last is not None:
        session.execute(delete(SubmissionRow).where(SubmissionRow.who == who, SubmissionRow.at_ms <= last))

"""The queue of what-ifs in the store. Each server adds to it and reads it; one of them evaluates the what-ifs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, undefer

from fraud_control.domain.errors import LimitReached, NotFound, RequestRefused
from fraud_control.domain.roles import system_author
from fraud_control.service.reading.approval_figures import saved_what_if
from fraud_control.store.database import Database
from fraud_control.store.submissions import claim
from fraud_control.store.what_if_models import WHAT_IF_ID_CHARS, WhatIfRow
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.model.day import Day

_KEPT: Final = 100
_KEPT_MS: Final = 86_400_000
_WAITING: Final = 10
_MOST_REQUESTED: Final = 1_000
_USER: Final = system_author("approvals")
_SAID_CHARS: Final = 1_000


class WhatIfStatus(StrEnum):
    """The progress of a what-if."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


_UNFINISHED: Final = (WhatIfStatus.WAITING, WhatIfStatus.RUNNING)
_IS_WAITING: Final = WhatIfRow.status == WhatIfStatus.WAITING
_IS_RUNNING: Final = WhatIfRow.status == WhatIfStatus.RUNNING
_INTERRUPTED: Final = "the server that evaluated it stopped or lost the store: start the what-if again"


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """A what-if: the record of a valid rule and the number of past days. `limits` lists the limits to try (empty: the
    default choice), and `windows` says whether to try other windows. `alerts_per_day` and `precision` (0 to 1) ask for
    suggestions of a limit.
    """

    record: bytes
    days: int
    limits: tuple[Decimal, ...] = ()
    windows: bool = True
    alerts_per_day: float | None = None
    precision: float | None = None


@dataclass(frozen=True, slots=True)
class WhatIfRun:
    """A what-if as the store has it. `rule_id` names the rule whose request for approval started it, None for a user's.
    `result` is its JSON, and `said` the reason of a failure.
    """

    id: str
    question: WhatIfQuestion
    user: str
    rule_id: int | None
    status: WhatIfStatus
    result: bytes | None = None
    said: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the what-if has a result or has failed."""
        return self.status not in _UNFINISHED


class WhatIfs:
    """Adds what-ifs to the queue and reads them. The store keeps ended ones for a day, at most the newest 100."""

    def __init__(self, database: Database, archive: ArchivePath, clock_ms: Callable[[], int]) -> None:
        self._database = database
        self._archive = archive
        self._clock_ms = clock_ms

    def start(self, question: WhatIfQuestion, user: str, most: int) -> WhatIfRun:
        """Queue a what-if. Raises LimitReached if the user already has `most`, and RequestRefused if too many wait."""
        with self._database.writing() as session:
            claim(session, self._clock_ms())
            self._prune(session)
            unfinished = _count(session, WhatIfRow.who == user, WhatIfRow.status.in_(_UNFINISHED))
            if unfinished >= most:
                raise LimitReached(f"{unfinished} what-ifs of yours are running or waiting; wait for their results")
            waiting = _count(session, WhatIfRow.rule_id.is_(None), _IS_WAITING)
            if waiting >= _WAITING:
                raise RequestRefused(f"{waiting} what-ifs are already waiting: try again when they are done")
            return self._add(session, question, user, None)

    def request(self, rule_id: int, question: WhatIfQuestion) -> None:
        """Queue the what-if of a rule that awaits approval, unless it waits or runs already. It replaces another one of
        this rule that still waits, and starts when no user's what-if waits. Raises RequestRefused if too many wait.
        """
        encoded = _encode(question)
        with self._database.writing() as session:
            self._prune(session)
            same = WhatIfRow.question == encoded
            if _count(session, WhatIfRow.rule_id == rule_id, WhatIfRow.status.in_(_UNFINISHED), same):
                return
            session.execute(delete(WhatIfRow).where(WhatIfRow.rule_id == rule_id, _IS_WAITING))
            waiting = _count(session, WhatIfRow.rule_id.is_not(None), _IS_WAITING)
            if waiting >= _MOST_REQUESTED:
                raise RequestRefused(f"{waiting} requests for approval already wait for their what-ifs")
            self._add(session, question, _USER, rule_id)

    def withdraw(self, rule_id: int) -> None:
        """Remove the what-if of a rule that no longer needs one from the queue. One that runs continues."""
        if self.is_requested(rule_id):
            with self._database.writing() as session:
                session.execute(delete(WhatIfRow).where(WhatIfRow.rule_id == rule_id, _IS_WAITING))

    def is_requested(self, rule_id: object) -> bool:
        """Whether the what-if of a request for this rule waits or runs."""
        with self._database.reading() as session:
            return _count(session, WhatIfRow.rule_id == rule_id, WhatIfRow.status.in_(_UNFINISHED)) > 0

    def get(self, run_id: str) -> WhatIfRun:
        """Read a what-if. Raises NotFound."""
        with self._database.reading() as session:
            query = select(WhatIfRow).where(WhatIfRow.id == run_id).options(undefer(WhatIfRow.result))
            row = session.scalar(query)
            if row is None:
                raise NotFound("this what-if does not exist; the store keeps results for a day")
            return _run_of(row, row.result)

    def saved(self, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Find the newest saved what-if of a rule, given without its state: the name of its report, and its result."""
        return saved_what_if(self._archive, document)

    def days(self) -> list[Day]:
        """List the archived days, ascending. Raises ArchiveDamaged, ArchiveUnreachable."""
        manifest = ArchiveStore(self._archive).latest()
        return sorted({*manifest.days(Table.TRANSACTIONS), *manifest.days(Table.IMPORTED)})

    def next_run(self) -> WhatIfRun | None:
        """Start the first what-if that waits, those of users before those of requests. None if none waits."""
        first = select(WhatIfRow).where(_IS_WAITING).order_by(WhatIfRow.rule_id.is_not(None), WhatIfRow.number).limit(1)
        with self._database.reading() as session:
            if session.scalar(first) is None:
                return None
        with self._database.writing() as session:
            row = session.scalar(first)
            if row is None:
                return None
            row.status = WhatIfStatus.RUNNING
            return _run_of(row)

    def end(self, run: WhatIfRun, result: bytes | None, said: str | None) -> None:
        """Save the end of a what-if that runs: its result, or the reason of its failure. The result of a request is its
        report in the archive, so its row ends.
        """
        status = WhatIfStatus.FAILED if result is None else WhatIfStatus.DONE
        said = None if said is None else said[:_SAID_CHARS]
        running = WhatIfRow.id == run.id, _IS_RUNNING
        with self._database.writing() as session:
            if run.rule_id is not None:
                session.execute(delete(WhatIfRow).where(*running))
                return
            session.execute(update(WhatIfRow).where(*running).values(status=status, result=result, said=said))

    def fail_interrupted(self) -> None:
        """Fail what-ifs that run. Only a server that has begun to lead may call it: no other server evaluates any."""
        with self._database.reading() as session:
            if not _count(session, _IS_RUNNING):
                return
        with self._database.writing() as session:
            session.execute(delete(WhatIfRow).where(_IS_RUNNING, WhatIfRow.rule_id.is_not(None)))
            session.execute(update(WhatIfRow).where(_IS_RUNNING).values(status=WhatIfStatus.FAILED, said=_INTERRUPTED))

    def _add(self, session: Session, question: WhatIfQuestion, user: str, rule_id: int | None) -> WhatIfRun:
        row = WhatIfRow(
            id=uuid.uuid4().hex[:WHAT_IF_ID_CHARS],
            who=user,
            rule_id=rule_id,
            question=_encode(question),
            status=WhatIfStatus.WAITING,
            at_ms=self._clock_ms(),
        )
        session.add(row)
        return _run_of(row)

    def _prune(self, session: Session) -> None:
        """Delete old what-ifs, and ended ones beyond the newest."""
        old = WhatIfRow.at_ms < self._clock_ms() - _KEPT_MS
        session.execute(delete(WhatIfRow).where(old, ~_IS_RUNNING))
        ended = WhatIfRow.status.not_in(_UNFINISHED)
        newest = select(WhatIfRow.number).where(ended).order_by(WhatIfRow.number.desc())
        last = session.scalar(newest.offset(_KEPT - 1).limit(1))
        if last is not None:
            session.execute(delete(WhatIfRow).where(ended, WhatIfRow.number < last))


def _count(session: Session, *conditions: Any) -> int:
    return session.scalar(select(func.count()).select_from(WhatIfRow).where(*conditions)) or 0


def _run_of(row: WhatIfRow, result: bytes | None = None) -> WhatIfRun:
    question = msgspec.json.decode(row.question, type=WhatIfQuestion)
    return WhatIfRun(row.id, question, row.who, row.rule_id, WhatIfStatus(row.status), result, row.said)


def _encode(question: WhatIfQuestion) -> bytes:
    return msgspec.json.encode(question)

"""The access to the store: sessions that read, and changes by users or by jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from fraud_control.domain.errors import Invalid
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import Actor, Role
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.bindings import check_name, role_of
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.rules.approved_content import SeedContents, no_seeds
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.store.submissions import claim
from fraud_rules.errors import Reason
from fraud_rules.runtime.safe_text import is_unprintable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """`reader` validates rules. `clock_ms` reads the time, in epoch ms. `contents` has the values of lists, and `seeds`
    reads the contents of the seed files.

    A change is one database transaction. It saves the rule or list, its revision, its row in the audit log and, if the
    detector needs it, its record in the outbox, all together or not at all. Changes run one at a time, so that the
    order of the outbox and of the audit log is the order in which the changes took effect.

    A process has one instance for its users, and all its threads may use it. Every block raises Unavailable if the
    database cannot be reached.
    """

    database: Database
    settings: ControlPlaneSettings
    reader: RuleReader
    clock_ms: Callable[[], int]
    seeds: SeedContents = no_seeds
    contents: CollectionContents = field(init=False)
    _listeners: list[Callable[[RuleChanged], None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "contents", CollectionContents(self.reader.limits))

    def listen(self, listener: Callable[[RuleChanged], None]) -> None:
        """Call `listener` after each change of a user, in the thread that saved it. It must return at once."""
        self._listeners.append(listener)

    @contextmanager
    def reading(self) -> Iterator[UnitOfWork]:
        """Open a session that only reads. It can determine the effects of a change, but save none."""
        with self.database.reading() as session:
            yield self._work_of(session)

    @contextmanager
    def unit_of_work(self) -> Iterator[UnitOfWork]:
        """Open a change as the only writer; the end of the block commits it. Raises as `Database.writing` does."""
        with self.database.writing() as session:
            yield self._work_of(session)

    @contextmanager
    def change(self, actor: Actor, text: str = "", member: str = "comment") -> Iterator[UnitOfWork]:
        """Open a change of a user, once per submission, and call the listeners after the commit. Raises as `check` and
        `unit_of_work` do.
        """
        self.check(actor, text, member)
        with self.unit_of_work() as work:
            work.program = actor.program
            claim(work.session, work.now_ms)
            yield work
        for changed in work.changed:
            self._notify(changed)

    def check(self, actor: Actor, text: str, member: str = "comment") -> None:
        """Raise Invalid for an invalid name of the user, or a comment `text` that is too long."""
        check_name(actor.user)
        maximum = self.settings.bounds.comment_chars
        if len(text) > maximum or is_unprintable(text):
            raise Invalid([Reason(member, f"must be text of at most {maximum} characters")])

    def role_of(self, user: str) -> Role | None:
        """The role of a user; None for a user without a role."""
        with self.database.reading() as session:
            return role_of(session, self.settings, user)

    def _work_of(self, session: Session) -> UnitOfWork:
        return UnitOfWork(session, self.settings, self.reader, self.clock_ms(), self.contents, self.seeds)

    def _notify(self, changed: RuleChanged) -> None:
        for listener in self._listeners:
            try:
                listener(changed)
            except Exception:  # noqa: BLE001 -- the change is saved, so a failing listener must not fail the request
                _log.exception("a listener of the control plane failed")

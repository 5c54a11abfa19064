"""The desk: every read and every change of the control plane.

A change is one database transaction: the rule, its revision, its row in the audit log and, where the detector is to
know, its record in the outbox come into being together or not at all. Changes are made one at a time, so that the
order of the outbox and of the audit log is the order in which they took effect.

Every method raises Unavailable when the database cannot be reached; further errors are named where they can come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from sqlalchemy import func, select

from fraud_ops.control_plane import audit, bindings, imports, quality, rule_book, steps
from fraud_ops.control_plane.canonical import document_of
from fraud_ops.control_plane.changes import Work
from fraud_ops.control_plane.errors import Invalid
from fraud_ops.control_plane.given import Reader, Wanted, differences, stored
from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.roles import Actor, Role
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.models import AuditEntry, OutboxRow, RuleHead
from fraud_ops.control_plane.views import (
    ApprovalView,
    AuditRow,
    BindingView,
    ChainVerdict,
    ControlSent,
    Difference,
    Document,
    Import,
    Judgement,
    MarkView,
    OutboxState,
    Page,
    RuleChanged,
    RuleDetail,
    RuleGiven,
    RuleRow,
    SnoozeView,
    Verdict,
    VersionView,
)
from fraud_rules.errors import Reason
from fraud_rules.limits import RuleLimits
from fraud_rules.rule_export import RuleFormat
from fraud_rules.safe_text import unprintable
from fraud_rules.schema import TransactionSchema

__all__ = ["ControlDesk"]

_MAX_QUERY_CHARS: Final = 200
_MAX_PLACE: Final = 2**63 - 1
_IN_LOG: Final = tuple(state for state in State if state.in_log)

_log = logging.getLogger(__name__)


class ControlDesk:
    """One a process; may be used by several threads."""

    def __init__(
        self,
        database: Database,
        schema: TransactionSchema,
        limits: RuleLimits,
        settings: ControlPlaneSettings,
        clock_ms: Callable[[], int],
    ) -> None:
        """`clock_ms` gives epoch milliseconds."""
        self._database = database
        self._settings = settings
        self._reader = Reader(schema, limits)
        self._clock_ms = clock_ms
        self._listeners: list[Callable[[RuleChanged], None]] = []

    def listen(self, changed: Callable[[RuleChanged], None]) -> None:
        """Call `changed` after every change that is saved, in the thread that made it; it must return at once."""
        self._listeners.append(changed)

    # Rules, read.

    def rules(
        self, *, state: State | None = None, query: str = "", limit: int = 200, cursor: str | None = None
    ) -> Page[RuleRow]:
        """Rules by id, deleted ones only when asked for by state; `query` is looked for in id, name, description,
        owner.

        Raises Invalid for a cursor that is none, or a limit out of bounds.
        """
        self._check_list(limit, query)
        after = None if cursor is None else _place(cursor)
        with self._database.reading() as session:
            return rule_book.rows(session, state=state, query=query.strip(), limit=limit, after=after)

    def rule(self, rule_id: int) -> RuleDetail:
        """One rule, also a deleted one. Raises NotFound."""
        with self._database.reading() as session:
            return rule_book.detail(session, self._reader, _id(rule_id))

    def versions(self, rule_id: int, *, limit: int = 200, before: int | None = None) -> Page[VersionView]:
        """Its revisions, newest first, those below `before`. Raises NotFound."""
        self._check_list(limit)
        with self._database.reading() as session:
            return rule_book.versions(session, _id(rule_id), limit=limit, before=_bound(before))

    def diff(self, rule_id: int, before: int, after: int) -> tuple[Difference, ...]:
        """What differs between two revisions, the state included (as `ruleState`). Raises NotFound."""
        with self._database.reading() as session:
            return rule_book.diff(session, _id(rule_id), _id(before), _id(after))

    def validate(self, given: RuleGiven, rule_id: int | None = None) -> Judgement:
        """Judge a rule and save nothing; compared with the stored `rule_id`, else with the one of its own id."""
        known = None if rule_id is None else self._known(rule_id)
        wanted = Wanted(None, State.DRAFT, free_id=1)
        if known is not None:
            wanted = Wanted(known.rule_id, State(known.state), known=document_of(known.document))
        try:
            rule = self._reader.rule(given, wanted, strict=known is not None)
        except Invalid as error:
            return Judgement(False, error.reasons, None, None, None, None, ())
        known = known or self._known(rule.rule_id)
        yaml, text, says = rule_book.forms(self._reader, stored(rule))
        before: Document = {} if known is None else document_of(known.document)
        return Judgement(True, (), rule.document, yaml, text, says, differences(before, rule.document))

    def export(self, form: RuleFormat, *, states: Iterable[State] | None = None) -> str:
        """The rules in these states (default: all but deleted ones and drafts) as a file.

        Raises Invalid for a rule that the text form cannot hold.
        """
        with self._database.reading() as session:
            return rule_book.export(session, form, _IN_LOG if states is None else states)

    # Rules, changed. `revision` is the newest one the asker has seen (the ETag).

    def create(self, who: Actor, given: RuleGiven, comment: str = "") -> RuleDetail:
        """A draft, whatever state is given; without a ruleId it gets a free one.

        Raises Invalid, Refused, and Conflict when there is a rule of this id that is not deleted.
        """
        with self._working(who, comment) as work:
            head = steps.create(work, who, given, comment.strip())
            return rule_book.detail(work.session, self._reader, head.rule_id)

    def edit(self, who: Actor, rule_id: int, revision: int, given: RuleGiven, comment: str = "") -> RuleDetail:
        """A new document for a rule, which keeps its state; as a request (`pending`) where somebody must approve it.

        Raises NotFound, Conflict, Refused, Invalid.
        """
        with self._working(who, comment) as work:
            steps.edit(work, who, _id(rule_id), revision, given, comment.strip())
            return rule_book.detail(work.session, self._reader, rule_id)

    def change_state(self, who: Actor, rule_id: int, revision: int, state: State, comment: str = "") -> RuleDetail:
        """Move a rule, or ask for it (`pending`). Raises NotFound, Conflict, Refused."""
        with self._working(who, comment) as work:
            steps.change_state(work, who, _id(rule_id), revision, state, comment.strip())
            return rule_book.detail(work.session, self._reader, rule_id)

    def rollback(self, who: Actor, rule_id: int, revision: int, to: int, comment: str = "") -> RuleDetail:
        """The document of an earlier revision as a new one, the state kept; or ask for it (`pending`).

        Raises NotFound, Conflict, Refused, and Invalid when the old document is no longer valid.
        """
        with self._working(who, comment) as work:
            steps.rollback(work, who, _id(rule_id), revision, _id(to), comment.strip())
            return rule_book.detail(work.session, self._reader, rule_id)

    def control(self, who: Actor, control: str, confirm: str = "", comment: str = "") -> ControlSent:
        """A control for the rule log. All but EXPORT_RULES_CURRENT need `confirm` to be the control's name.

        Raises Refused, Invalid.
        """
        with self._working(who, comment) as work:
            return ControlSent(control, steps.control(work, who, control, confirm, comment.strip()))

    def import_rules(
        self, who: Actor, content: str, form: RuleFormat | None = None, comment: str = "", *, dry_run: bool = False
    ) -> Import:
        """A file of rules (form None: told from the content): new ones become drafts, known ones get a new document and
        keep their state, DELETE records end rules (admins only). All or nothing; `dry_run` says what would be done.

        Raises Refused, and Invalid for content that cannot be read or is too large.
        """
        records = imports.read_import(who, content, form, self._settings.bounds, self._reader.limits)
        with self._working(who, comment) as work:
            done = imports.import_rules(work, who, records, comment.strip())
            if dry_run or not done.applied:
                work.take_back()
                return Import(done.items, applied=False)
            return done

    # Approvals.

    def approvals(self, *, open_only: bool = True, limit: int = 200, before: int | None = None) -> Page[ApprovalView]:
        """Newest first, ids below `before`."""
        self._check_list(limit)
        with self._database.reading() as session:
            return rule_book.approvals(session, open_only=open_only, limit=limit, before=_bound(before))

    def decide(self, who: Actor, approval_id: int, *, approve: bool, comment: str = "") -> ApprovalView:
        """Approve or reject; whoever asked may take it back by rejecting it.

        Raises NotFound, Refused, and Conflict when it is decided already or the rule has changed since.
        """
        with self._working(who, comment) as work:
            decided = steps.decide(work, who, _id(approval_id), comment.strip(), approve=approve)
            return rule_book.approval_view(decided)

    # Alerts: marks and snoozes.

    def mark(self, who: Actor, alert_id: str, rule_id: int, rule_version: int, verdict: Verdict) -> MarkView:
        """Say of an alert whether it was fraud; the newest word counts. Raises Refused, Invalid."""
        with self._working(who) as work:
            return quality.mark(work, who, alert_id, rule_id, rule_version, verdict)

    def unmark(self, who: Actor, alert_id: str) -> None:
        """Take a mark back. Raises NotFound, Refused."""
        with self._working(who) as work:
            quality.unmark(work, who, alert_id)

    def marks(self, alert_ids: Iterable[str]) -> Mapping[str, MarkView]:
        """The marks of these alerts (at most 10,000), by alert id."""
        with self._database.reading() as session:
            return quality.marks(session, alert_ids)

    def mark_counts(self) -> Mapping[int, tuple[int, int]]:
        """By rule id: alerts marked fraud, and marked not fraud."""
        with self._database.reading() as session:
            return quality.mark_counts(session)

    def snoozes(self) -> tuple[SnoozeView, ...]:
        """Those that have not run out."""
        with self._database.reading() as session:
            return quality.snoozes(session, self._clock_ms())

    def snooze(self, who: Actor, rule_id: int, key: Document | None, until_ms: int, reason: str) -> SnoozeView:
        """Raises NotFound, Refused, and Invalid for a time that has passed or is too far ahead."""
        with self._working(who, reason, "reason") as work:
            return quality.snooze(work, who, _id(rule_id), key, until_ms, reason.strip())

    def unsnooze(self, who: Actor, snooze_id: int) -> None:
        """End a snooze now. Raises NotFound, Refused."""
        with self._working(who) as work:
            quality.unsnooze(work, who, _id(snooze_id))

    # Who may what, and what was done.

    def role_of(self, user: str) -> Role | None:
        """The role bound to a user: in the table, else in the settings; None without one."""
        with self._database.reading() as session:
            return bindings.role_of(session, self._settings, user)

    def bindings(self) -> tuple[BindingView, ...]:
        """Everybody's role, by user."""
        with self._database.reading() as session:
            return bindings.bindings(session, self._settings)

    def bind(self, who: Actor, user: str, role: Role) -> BindingView:
        """Raises Refused (also to take the last admin's role away), Invalid."""
        with self._working(who) as work:
            return bindings.bind(work, who, user, role)

    def unbind(self, who: Actor, user: str) -> None:
        """Take a user's role away, also one that the settings give. Raises NotFound, Refused."""
        with self._working(who) as work:
            bindings.unbind(work, who, user)

    def audit_rows(self, *, before: int | None = None, limit: int = 200, rule_id: int | None = None) -> Page[AuditRow]:
        """The audit log, newest first, rows below `before`."""
        self._check_list(limit)
        wanted = [AuditEntry.seq < (_MAX_PLACE if before is None else _id(before))]
        if rule_id is not None:
            wanted.append(AuditEntry.rule_id == _id(rule_id))
        with self._database.reading() as session:
            asked = select(AuditEntry).where(*wanted).order_by(AuditEntry.seq.desc()).limit(limit + 1)
            found = session.scalars(asked).all()
        shown = found[:limit]
        return Page(tuple(map(audit.row_of, shown)), str(shown[-1].seq) if len(found) > limit else None)

    def verify_audit(self) -> ChainVerdict:
        """Reckon the whole chain anew."""
        with self._database.reading() as session:
            return audit.verify(session)

    def outbox(self) -> OutboxState:
        """What is on its way to the rule log."""
        waits = OutboxRow.log_version.is_(None)
        with self._database.reading() as session:
            found = session.execute(select(func.count(), func.min(OutboxRow.created_ms)).where(waits)).one()
        return OutboxState(found[0], found[1])

    @contextmanager
    def _working(self, who: Actor, remark: str = "", named: str = "comment") -> Iterator[Work]:
        """A change; those who listen hear of it once it is committed."""
        bindings.check_user(who.user)
        most = self._settings.bounds.comment_chars
        if len(remark) > most or unprintable(remark):
            raise Invalid([Reason(named, f"must be text of at most {most} characters")])
        with self._database.writing() as session:
            work = Work(session, self._settings, self._reader, self._clock_ms())
            yield work
        for changed in work.changed:
            self._tell(changed)

    def _tell(self, changed: RuleChanged) -> None:
        for listener in self._listeners:
            try:
                listener(changed)
            except Exception:  # noqa: BLE001 -- the change is saved, whatever a listener makes of it
                _log.exception("a listener of the control desk failed")

    def _known(self, rule_id: int) -> RuleHead | None:
        with self._database.reading() as session:
            return session.get(RuleHead, _id(rule_id))

    def _check_list(self, limit: int, query: str = "") -> None:
        most = self._settings.bounds.page
        if not 1 <= limit <= most:
            raise Invalid([Reason("limit", f"must be from 1 to {most}")])
        if len(query) > _MAX_QUERY_CHARS or unprintable(query):
            raise Invalid([Reason("q", f"must be text of at most {_MAX_QUERY_CHARS} characters")])


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise Invalid([Reason("cursor", "is not one of ours")])
    return _id(int(cursor))


def _bound(before: int | None) -> int | None:
    return None if before is None else _id(before)


def _id(number: int) -> int:
    """A number that fits the database; what does not is no id of anything."""
    return number if 0 <= number <= _MAX_PLACE else -1

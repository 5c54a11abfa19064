"""The service layer: all reads and all changes of the control plane.

A change is one database transaction. It saves the rule, its revision, its row in the audit log and, if the detector
needs it, its record in the outbox, all together or not at all. Changes run one at a time, so that the order of the
outbox and of the audit log is the order in which the changes took effect.

Every method raises Unavailable if the database cannot be reached. The docstrings name further errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import func, select

from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.read_models import (
    Approval,
    AuditRow,
    AuditState,
    AuditVerdict,
    Binding,
    Change,
    ControlName,
    ControlResult,
    Document,
    ImportResult,
    Mark,
    MarkVerdict,
    OutboxState,
    Page,
    PresentFigures,
    Revision,
    RuleChanged,
    RuleInput,
    RuleWithForms,
    ShadowFigures,
    Snooze,
    StoredRule,
    Validation,
)
from fraud_ops.control_plane.domain.roles import Actor, Role
from fraud_ops.control_plane.domain.rule_input import RuleReader
from fraud_ops.control_plane.service import (
    audit,
    bindings,
    imports,
    quality,
    rule_queries,
    transitions,
    validation,
)
from fraud_ops.control_plane.service.alerts.saved_searches import AlertSearches
from fraud_ops.control_plane.service.approvals import decide
from fraud_ops.control_plane.service.approved_content import SeedContents, approved_contents, no_seeds
from fraud_ops.control_plane.service.audit import AuditFilter
from fraud_ops.control_plane.service.cases.service import CaseService
from fraud_ops.control_plane.service.ids import MAX_ID, check_page, parse_cursor, storable_bound, storable_id
from fraud_ops.control_plane.service.labels.service import LabelService
from fraud_ops.control_plane.service.lists.service import ListService
from fraud_ops.control_plane.service.notifications.subscriptions import SubscriptionService
from fraud_ops.control_plane.service.reading import approval_figures
from fraud_ops.control_plane.service.store_access import StoreAccess, UserChanges
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.models import OutboxRow
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.schema import ID_FIELD, FieldType, TransactionSchema

__all__ = ["ControlService"]

_IN_LOG: Final = tuple(state for state in StateName if state.in_log)

_EVERY_ROW: Final = AuditFilter()


class ControlService:
    """Reads and changes rules, approvals, labels, alert marks, snoozes, roles and the audit log.

    A process has one instance, and all its threads may use it.
    """

    def __init__(
        self,
        database: Database,
        schema: TransactionSchema,
        limits: RuleLimits,
        settings: ControlPlaneSettings,
        clock_ms: Callable[[], int],
        seeds: SeedContents = no_seeds,
    ) -> None:
        """`clock_ms` gives epoch milliseconds. `seeds` reads the contents of the seed files: they count as approved."""
        self._database = database
        self._settings = settings
        self._reader = RuleReader(schema, limits)
        self._clock_ms = clock_ms
        ids = schema.field(ID_FIELD)
        self._text_ids = ids is not None and ids.type is FieldType.STRING
        self.store = StoreAccess(database, settings, self._reader, clock_ms, seeds)
        """The access to the store, with the values of lists, which a process keeps once."""
        self._changes = UserChanges(self.store)
        self._scan = audit.AuditScan()
        self.lists = ListService(self.store, self._changes)
        """The lists of values."""
        self.searches = AlertSearches(self.store, self._changes)
        """The alert index, and the searches that users saved."""
        self.cases = CaseService(self.store, self._changes)
        """The cases of the review queue."""
        self.subscriptions = SubscriptionService(self.store, self._changes)
        """The subscriptions to notifications, and their deliveries."""
        self.labels = LabelService(self.store, self._changes, schema)
        """The labels of transactions from files and from the topic."""

    def listen(self, listener: Callable[[RuleChanged], None]) -> None:
        """Call `listener` after each saved change, in the thread that saved it. The callback must return at once."""
        self._changes.listen(listener)

    # Reads of rules.

    def rule_names(self) -> Sequence[tuple[int, str]]:
        """List the ids and names of all rules that are not deleted, by id."""
        with self._database.reading() as session:
            return rule_queries.names(session)

    def rules(
        self, *, state: StateName | None = None, query: str = "", limit: int = 200, cursor: str | None = None
    ) -> Page[StoredRule]:
        """List rules by id. `query` searches id, name, description and owner. Deleted rules appear only if `state`
        is DELETE.

        Raises Invalid for a malformed cursor or a limit out of bounds.
        """
        self._check_page(limit, query)
        after = None if cursor is None else parse_cursor(cursor)
        with self._database.reading() as session:
            return rule_queries.rows(session, state=state, query=query.strip(), limit=limit, after=after)

    def rule(self, rule_id: int) -> RuleWithForms:
        """Read a rule, which may be deleted. Raises NotFound."""
        with self._database.reading() as session:
            return rule_queries.detail(session, self._reader, storable_id(rule_id))

    def revisions(self, rule_id: int, *, limit: int = 200, before: int | None = None) -> Page[Revision]:
        """List the revisions of a rule that are below `before`, newest first. Raises NotFound."""
        self._check_page(limit)
        with self._database.reading() as session:
            return rule_queries.revisions(session, storable_id(rule_id), limit=limit, before=storable_bound(before))

    def approved_revisions(self, rule_id: int, items: Iterable[Revision]) -> frozenset[int]:
        """The revisions among these whose content was approved. A rollback to them takes effect at once."""
        with self._database.reading() as session:
            approved = approved_contents(session, storable_id(rule_id), self.store.seeds)
        return frozenset(each.revision for each in items if approved.covers(each.document))

    def diff(self, rule_id: int, before: int, after: int) -> list[Change]:
        """Compare two revisions, including the state (as `ruleState`). Raises NotFound."""
        with self._database.reading() as session:
            return rule_queries.diff(session, storable_id(rule_id), storable_id(before), storable_id(after))

    def validate(self, rule_input: RuleInput, rule_id: int | None = None) -> Validation:
        """Validate a rule without saving it. `changes` compares it with the stored rule `rule_id`; without
        `rule_id`, with the stored rule that has the id of the input.
        """
        with self._database.reading() as session:
            return validation.validate(session, self._reader, rule_input, rule_id)

    def export(self, form: RuleFormat, *, states: Iterable[StateName] | None = None) -> str:
        """Write the rules in these states (default: all but drafts and deleted rules) as the text of a file.

        Raises Invalid for a rule that the one-line form cannot express.
        """
        with self._database.reading() as session:
            return rule_queries.export(session, form, _IN_LOG if states is None else states)

    # Changes of rules. `revision` is the newest revision that the client has read (the ETag).

    def create(self, actor: Actor, rule_input: RuleInput, comment: str = "") -> RuleWithForms:
        """Create a rule as a draft. The state of the input is ignored. A rule without a ruleId gets a free id.

        Raises Invalid, RequestRefused, and Conflict if a rule with this id exists and is not deleted.
        """
        with self._changes.unit_of_work(actor, comment) as work:
            head = transitions.create(work, actor, rule_input, comment.strip())
            return rule_queries.detail(work.session, self._reader, head.rule_id)

    def edit(
        self, actor: Actor, rule_id: int, revision: int, rule_input: RuleInput, comment: str = ""
    ) -> RuleWithForms:
        """Replace the document of a rule and keep its state. If the change needs approval, save a request (`pending`).

        Raises NotFound, Conflict, RequestRefused, Invalid.
        """
        with self._changes.unit_of_work(actor, comment) as work:
            transitions.edit(work, actor, storable_id(rule_id), revision, rule_input, comment.strip())
            return rule_queries.detail(work.session, self._reader, rule_id)

    def change_state(
        self, actor: Actor, rule_id: int, revision: int, state: StateName, comment: str = ""
    ) -> RuleWithForms:
        """Change the state of a rule, or request the change (`pending`). Raises NotFound, Conflict, RequestRefused."""
        with self._changes.unit_of_work(actor, comment) as work:
            transitions.change_state(work, actor, storable_id(rule_id), revision, state, comment.strip())
            return rule_queries.detail(work.session, self._reader, rule_id)

    def rollback(self, actor: Actor, rule_id: int, revision: int, to: int, comment: str = "") -> RuleWithForms:
        """Save the document of an earlier revision as a new revision, or request it (`pending`). The state stays.

        Raises NotFound, Conflict, RequestRefused, and Invalid if schema or limits have made the old document invalid.
        """
        with self._changes.unit_of_work(actor, comment) as work:
            transitions.rollback(work, actor, storable_id(rule_id), revision, storable_id(to), comment.strip())
            return rule_queries.detail(work.session, self._reader, rule_id)

    def control(self, actor: Actor, control: str, confirm: str = "", comment: str = "") -> ControlResult:
        """Send a control to the rule log. For all but EXPORT_RULES_CURRENT, `confirm` must repeat the control's name.

        Raises RequestRefused, Invalid.
        """
        with self._changes.unit_of_work(actor, comment) as work:
            seq = transitions.control(work, actor, control, confirm, comment.strip())
            return ControlResult(control=ControlName(control), seq=seq)

    def import_rules(
        self, actor: Actor, content: str, form: RuleFormat | None = None, comment: str = "", *, dry_run: bool = False
    ) -> ImportResult:
        """Import a file of rules, all of it or nothing (form None: detect the form from the content).

        New rules become drafts, known rules get a new document and keep their state, and DELETE records delete rules
        (admins only). `dry_run` returns the effects and saves nothing. Raises RequestRefused, and Invalid for content
        that is unreadable or too large.

        Rules are parsed and checked before the writer's transaction, so that other changes do not wait for this work.
        """
        self._changes.check(actor, comment)
        records = imports.read_import(actor, content, form, self._settings.bounds, self._reader.limits)
        parsed = imports.ParsedRules(self._reader, records)
        with self._database.reading() as session:
            reads = self.store.work_of(session)
            foreseen = imports.import_rules(reads, actor, parsed, comment.strip(), saves=False)
        if dry_run or not foreseen.applied:
            return ImportResult(items=foreseen.items, applied=False)
        with self._changes.unit_of_work(actor, comment) as work:
            done = imports.import_rules(work, actor, parsed, comment.strip(), saves=True)
            if not done.applied:
                work.roll_back_all()
            return done

    # Approvals.

    def approvals(self, *, open_only: bool = True, limit: int = 200, before: int | None = None) -> Page[Approval]:
        """List requests for approval with ids below `before`, newest first."""
        self._check_page(limit)
        with self._database.reading() as session:
            return rule_queries.approvals(
                session, self._reader, open_only=open_only, limit=limit, before=storable_bound(before)
            )

    def approval_figures(self, approval_id: int) -> tuple[Document, ShadowFigures | None, PresentFigures | None]:
        """Read the rule of a request, without its state, its figures as a shadow rule, and the figures of the active
        rule that the request changes. Raises NotFound.
        """
        with self._database.reading() as session:
            request = approval_figures.request_about_rule(session, storable_id(approval_id))
            document, requester = approval_figures.requested_rule(request), request.requested_by
            days, at_ms = self._settings.bounds.alert_days, self._clock_ms()
            shadow = approval_figures.shadow_figures(session, document, requester, at_ms, days, text_ids=self._text_ids)
            return document, shadow, approval_figures.present_figures(session, document["ruleId"], at_ms, days)

    def requested_rule(self, rule_id: int) -> Document | None:
        """Read the requested content of a rule with an open request, if the detector will evaluate it. Else None."""
        with self._database.reading() as session:
            return approval_figures.rule_to_evaluate(session, rule_id)

    def decide(
        self,
        actor: Actor,
        approval_id: int,
        *,
        approve: bool,
        comment: str = "",
        shown: Mapping[str, int] | None = None,
    ) -> Approval:
        """Approve or reject a request. Users withdraw their own requests by rejecting them. `shown` is the basis that
        the approver saw.

        Raises NotFound, RequestRefused, and Conflict if the request has been decided, or the rule or a list that it
        names has changed since.
        """
        with self._changes.unit_of_work(actor, comment) as work:
            decided = decide(work, actor, storable_id(approval_id), comment.strip(), approve=approve, shown=shown)
            return Approval.model_validate(decided)

    # Alerts: marks and snoozes.

    def mark(self, actor: Actor, alert_id: str, rule_id: int, rule_version: int, verdict: MarkVerdict) -> Mark:
        """Mark an alert as fraud or not fraud; the newest mark counts. Raises RequestRefused, Invalid."""
        with self._changes.unit_of_work(actor) as work:
            return quality.mark(work, actor, alert_id, rule_id, rule_version, verdict)

    def unmark(self, actor: Actor, alert_id: str) -> None:
        """Remove a mark. Raises NotFound, RequestRefused."""
        with self._changes.unit_of_work(actor) as work:
            quality.unmark(work, actor, alert_id)

    def marks(self, alert_ids: Iterable[str]) -> Mapping[str, Mark]:
        """Read the marks of these alerts (at most 10,000), by alert id."""
        with self._database.reading() as session:
            return quality.marks(session, alert_ids)

    def mark_counts(self) -> Mapping[int, tuple[int, int]]:
        """Count marks by rule id: alerts marked as fraud, and alerts marked as not fraud."""
        with self._database.reading() as session:
            return quality.mark_counts(session)

    def snoozes(self) -> tuple[Snooze, ...]:
        """List the snoozes that have not expired."""
        with self._database.reading() as session:
            return quality.snoozes(session, self._clock_ms())

    def snooze(self, actor: Actor, rule_id: int, key: Document | None, until_ms: int, reason: str) -> Snooze:
        """Snooze alerts of a rule, or of one key of it. Raises NotFound, RequestRefused, and Invalid for a time in the
        past or too far ahead.
        """
        with self._changes.unit_of_work(actor, reason, "reason") as work:
            return quality.snooze(work, actor, storable_id(rule_id), key, until_ms, reason.strip())

    def unsnooze(self, actor: Actor, snooze_id: int) -> None:
        """End a snooze now. Raises NotFound, RequestRefused."""
        with self._changes.unit_of_work(actor) as work:
            quality.unsnooze(work, actor, storable_id(snooze_id))

    # Roles and the audit log.

    def role_of(self, user: str) -> Role | None:
        """Read a user's role from the table, else from the settings; None for a user without a role."""
        with self._database.reading() as session:
            return bindings.role_of(session, self._settings, user)

    def bindings(self) -> tuple[Binding, ...]:
        """List all users with their roles, by user."""
        with self._database.reading() as session:
            return bindings.bindings(session, self._settings)

    def bind(self, actor: Actor, user: str, role: Role) -> Binding:
        """Give a user a role. Raises RequestRefused (also if the last admin would lose the role), Invalid."""
        with self._changes.unit_of_work(actor) as work:
            return bindings.bind(work, actor, user, role)

    def unbind(self, actor: Actor, user: str) -> None:
        """Remove a user's role, which may come from the settings. Raises NotFound, RequestRefused."""
        with self._changes.unit_of_work(actor) as work:
            bindings.unbind(work, actor, user)

    def audit_rows(
        self, wanted: AuditFilter = _EVERY_ROW, *, before: int | None = None, limit: int = 200
    ) -> Page[AuditRow]:
        """List the rows of the audit log below `before` that match a filter, newest first."""
        self._check_page(limit)
        end = MAX_ID if before is None else storable_id(before)
        if wanted.rule_id is not None:
            wanted = replace(wanted, rule_id=storable_id(wanted.rule_id))
        with self._database.reading() as session:
            return audit.rows(session, wanted, before=end, limit=limit)

    def verify_audit(self) -> AuditVerdict:
        """Check the hash of every row of the audit log."""
        with self._database.reading() as session:
            return audit.verify(session)

    def scan_audit(self) -> AuditState:
        """Check the next part of the audit log, see `AuditScan`."""
        with self._database.reading() as session:
            state = self._scan.step(session, self._clock_ms())
        with self._database.writing() as session:
            state.save(session)
            return state.shown(session)

    def audit_state(self) -> AuditState:
        """Read the state of the verification in the background."""
        with self._database.reading() as session:
            return audit.scan_state(session).shown(session)

    def outbox(self) -> OutboxState:
        """Count the changes that wait for the rule log."""
        unpublished = OutboxRow.log_version.is_(None)
        with self._database.reading() as session:
            found = session.execute(select(func.count(), func.min(OutboxRow.created_ms)).where(unpublished)).one()
        return OutboxState(found[0], found[1])

    def _check_page(self, limit: int, query: str = "") -> None:
        check_page(limit, self._settings.bounds.page, query)

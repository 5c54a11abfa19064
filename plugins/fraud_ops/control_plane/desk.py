"""The desk: every read and every change of the control plane.

A change is one database transaction: the rule, its revision, its row in the audit log and, where the detector is to
know, its record in the outbox come into being together or not at all. Changes are made one at a time, so that the
order of the outbox and of the audit log is the order in which they took effect.

Every method raises Unavailable when the database cannot be reached; further errors are named where they can come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.roles import Actor, Role
from fraud_ops.control_plane.settings import ControlPlaneSettings
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
from fraud_rules.limits import RuleLimits
from fraud_rules.rule_export import RuleFormat
from fraud_rules.schema import TransactionSchema

if TYPE_CHECKING:
    from fraud_ops.control_plane.store.database import Database

__all__ = ["ControlDesk"]


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

    def listen(self, changed: Callable[[RuleChanged], None]) -> None:
        """Call `changed` after every change that is saved, in the thread that made it; it must return at once."""
        raise NotImplementedError

    # Rules, read.

    def rules(
        self, *, state: State | None = None, query: str = "", limit: int = 200, cursor: str | None = None
    ) -> Page[RuleRow]:
        """Rules by id, deleted ones only when asked for by state; `query` is looked for in id, name, description,
        owner.

        Raises Invalid for a cursor that is none, or a limit out of bounds.
        """
        raise NotImplementedError

    def rule(self, rule_id: int) -> RuleDetail:
        """One rule, also a deleted one. Raises NotFound."""
        raise NotImplementedError

    def versions(self, rule_id: int, *, limit: int = 200, before: int | None = None) -> Page[VersionView]:
        """Its revisions, newest first, those below `before`. Raises NotFound."""
        raise NotImplementedError

    def diff(self, rule_id: int, before: int, after: int) -> tuple[Difference, ...]:
        """What differs between two revisions, the state included (as `ruleState`). Raises NotFound."""
        raise NotImplementedError

    def validate(self, given: RuleGiven, rule_id: int | None = None) -> Judgement:
        """Judge a rule and save nothing; compared with the stored `rule_id`, else with the one of its own id."""
        raise NotImplementedError

    def export(self, form: RuleFormat, *, states: Iterable[State] | None = None) -> str:
        """The rules in these states (default: all but deleted ones and drafts) as a file.

        Raises Invalid for a rule that the text form cannot hold.
        """
        raise NotImplementedError

    # Rules, changed. `revision` is the newest one the asker has seen (the ETag).

    def create(self, who: Actor, given: RuleGiven, comment: str = "") -> RuleDetail:
        """A draft, whatever state is given; without a ruleId it gets a free one.

        Raises Invalid, Refused, and Conflict when there is a rule of this id that is not deleted.
        """
        raise NotImplementedError

    def edit(self, who: Actor, rule_id: int, revision: int, given: RuleGiven, comment: str = "") -> RuleDetail:
        """A new document for a rule, which keeps its state; as a request (`pending`) where somebody must approve it.

        Raises NotFound, Conflict, Refused, Invalid.
        """
        raise NotImplementedError

    def change_state(self, who: Actor, rule_id: int, revision: int, state: State, comment: str = "") -> RuleDetail:
        """Move a rule, or ask for it (`pending`). Raises NotFound, Conflict, Refused."""
        raise NotImplementedError

    def rollback(self, who: Actor, rule_id: int, revision: int, to: int, comment: str = "") -> RuleDetail:
        """The document of an earlier revision as a new one, the state kept; or ask for it (`pending`).

        Raises NotFound, Conflict, Refused, and Invalid when the old document is no longer valid.
        """
        raise NotImplementedError

    def control(self, who: Actor, control: str, confirm: str = "", comment: str = "") -> ControlSent:
        """A control for the rule log. All but EXPORT_RULES_CURRENT need `confirm` to be the control's name.

        Raises Refused, Invalid.
        """
        raise NotImplementedError

    def import_rules(
        self, who: Actor, content: str, form: RuleFormat | None = None, comment: str = "", *, dry_run: bool = False
    ) -> Import:
        """A file of rules (form None: told from the content): new ones become drafts, known ones get a new document and
        keep their state, DELETE records end rules (admins only). All or nothing; `dry_run` says what would be done.

        Raises Refused, and Invalid for content that cannot be read or is too large.
        """
        raise NotImplementedError

    # Approvals.

    def approvals(self, *, open_only: bool = True, limit: int = 200, before: int | None = None) -> Page[ApprovalView]:
        """Newest first, ids below `before`."""
        raise NotImplementedError

    def decide(self, who: Actor, approval_id: int, *, approve: bool, comment: str = "") -> ApprovalView:
        """Approve or reject; whoever asked may take it back by rejecting it.

        Raises NotFound, Refused, and Conflict when it is decided already or the rule has changed since.
        """
        raise NotImplementedError

    # Alerts: marks and snoozes.

    def mark(self, who: Actor, alert_id: str, rule_id: int, rule_version: int, verdict: Verdict) -> MarkView:
        """Say of an alert whether it was fraud; the newest word counts. Raises Refused, Invalid."""
        raise NotImplementedError

    def unmark(self, who: Actor, alert_id: str) -> None:
        """Take a mark back. Raises NotFound, Refused."""
        raise NotImplementedError

    def marks(self, alert_ids: Iterable[str]) -> Mapping[str, MarkView]:
        """The marks of these alerts (at most 10,000), by alert id."""
        raise NotImplementedError

    def mark_counts(self) -> Mapping[int, tuple[int, int]]:
        """By rule id: alerts marked fraud, and marked not fraud."""
        raise NotImplementedError

    def snoozes(self) -> tuple[SnoozeView, ...]:
        """Those that have not run out."""
        raise NotImplementedError

    def snooze(self, who: Actor, rule_id: int, key: Document | None, until_ms: int, reason: str) -> SnoozeView:
        """Raises NotFound, Refused, and Invalid for a time that has passed or is too far ahead."""
        raise NotImplementedError

    def unsnooze(self, who: Actor, snooze_id: int) -> None:
        """End a snooze now. Raises NotFound, Refused."""
        raise NotImplementedError

    # Who may what, and what was done.

    def role_of(self, user: str) -> Role | None:
        """The role bound to a user: in the table, else in the settings; None without one."""
        raise NotImplementedError

    def bindings(self) -> tuple[BindingView, ...]:
        """Everybody's role, by user."""
        raise NotImplementedError

    def bind(self, who: Actor, user: str, role: Role) -> BindingView:
        """Raises Refused (also to take the last admin's role away), Invalid."""
        raise NotImplementedError

    def unbind(self, who: Actor, user: str) -> None:
        """Take a user's role away, also one that the settings give. Raises NotFound, Refused."""
        raise NotImplementedError

    def audit_rows(self, *, before: int | None = None, limit: int = 200, rule_id: int | None = None) -> Page[AuditRow]:
        """The audit log, newest first, rows below `before`."""
        raise NotImplementedError

    def verify_audit(self) -> ChainVerdict:
        """Reckon the whole chain anew."""
        raise NotImplementedError

    def outbox(self) -> OutboxState:
        """What is on its way to the rule log."""
        raise NotImplementedError

"""Arguments and results of the service: frozen, times in epoch milliseconds, document numbers `int` or `Decimal`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from fraud_ops.control_plane.domain.lifecycle import State
from fraud_ops.control_plane.domain.roles import Role
from fraud_rules.errors import Reason

__all__ = [
    "ApprovalView",
    "AuditRow",
    "BindingView",
    "ChainVerdict",
    "ControlSent",
    "Difference",
    "Document",
    "Import",
    "ImportEffect",
    "ImportItem",
    "Judgement",
    "MarkView",
    "OutboxState",
    "Page",
    "RuleChanged",
    "RuleDetail",
    "RuleGiven",
    "RuleRow",
    "SnoozeView",
    "Verdict",
    "VersionView",
]

T = TypeVar("T")

Document: TypeAlias = Mapping[str, object]
"""A rule in the form of the rule log. Numbers are `int` or `Decimal`; a float is refused as not a number."""


class Verdict(StrEnum):
    """An analyst's verdict about an alert."""

    FRAUD = "FRAUD"
    NOT_FRAUD = "NOT_FRAUD"


class ImportEffect(StrEnum):
    """The effect of one record of an import."""

    ADD = "added"  # a new draft
    CHANGE = "changed"
    REQUEST = "requested"  # a second person must approve the change
    DELETE = "deleted"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class RuleGiven:
    """A rule as a user enters it, in exactly one of three forms. `text` is JSON or the one-line text form."""

    document: Document | None = None
    text: str | None = None
    yaml: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `next` is the cursor of the next page, None on the last page."""

    items: tuple[T, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A member of a rule that differs, before and after; None if the rule lacks the member."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A request for approval. `action` is `state`, `edit` or `rollback`; `target` is the requested state of `state`.

    `document` is the rule after approval, and `author` wrote it. `decision` is `approved`, `rejected` or `withdrawn`
    (also if the rule has changed since), None while the request is open. `revision` is the rule's revision at the time
    of the request.
    """

    id: int
    rule_id: int
    revision: int
    action: str
    target: State | None
    document: Document
    author: str
    requested_by: str
    requested_at_ms: int
    comment: str
    decision: str | None = None
    decided_by: str | None = None
    decided_at_ms: int | None = None
    decision_comment: str | None = None


@dataclass(frozen=True, slots=True)
class RuleRow:
    """The newest version of a rule. `log_version` is the offset of its record in the rule log.

    `log_version` is None until the newest change reaches the log, and for changes that only the store holds (drafts).
    `published` is false only in the first case: a record waits in the outbox.
    """

    rule_id: int
    name: str | None
    description: str | None
    severity: str | None
    owner: str | None
    state: State
    revision: int
    updated_at_ms: int
    updated_by: str
    source: str
    document: Document
    log_version: int | None
    published: bool
    pending: ApprovalView | None


@dataclass(frozen=True, slots=True)
class RuleDetail:
    """A rule with its text forms. `text` is None if the one-line form cannot express the rule; `says` describes the
    rule in words.
    """

    row: RuleRow
    yaml: str
    text: str | None
    says: str
    author: str  # wrote the document; another user may have moved the rule since
    next_states: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The validation of a rule, which is not saved. `changes` compares it with the stored rule, if there is one."""

    valid: bool
    reasons: tuple[Reason, ...]
    document: Document | None
    yaml: str | None
    text: str | None
    says: str | None
    changes: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class VersionView:
    """A revision. `log_version` is the offset of its record in the rule log; None before the record arrives, and for
    a revision without a record.
    """

    revision: int
    state: State
    document: Document
    source: str
    author: str
    at_ms: int
    comment: str
    log_version: int | None


@dataclass(frozen=True, slots=True)
class ControlSent:
    """A control that waits for publication; `seq` is its number in the outbox."""

    control: str
    seq: int


@dataclass(frozen=True, slots=True)
class ImportItem:
    """The result of one record of an import; `where` names the record (`rule 3`)."""

    where: str
    rule_id: int | None
    effect: ImportEffect
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """The result of an import: the import applies all records or none."""

    items: tuple[ImportItem, ...]
    applied: bool


@dataclass(frozen=True, slots=True)
class MarkView:
    """A user's mark on an alert."""

    alert_id: str
    rule_id: int
    rule_version: int
    verdict: Verdict
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SnoozeView:
    """A snooze: until `until_ms`, lists hide a rule's alerts of one key (in the alert's form), or all (`key` None)."""

    id: int
    rule_id: int
    key: Document | None
    until_ms: int
    who: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row of the audit log: one change. `before` and `after` are JSON-ready. `hash` covers the row and
    `previous_hash`, in hex.
    """

    seq: int
    at_ms: int
    who: str
    action: str
    subject: str
    before: object
    after: object
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The result of checking the audit chain; `broken_at` is the first row that does not fit."""

    whole: bool
    rows: int
    broken_at: int | None
    head: str  # the hash of the last row


@dataclass(frozen=True, slots=True)
class BindingView:
    """A user's role; `by` is None if the configuration file gives the role."""

    user: str
    role: Role
    by: str | None
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class OutboxState:
    """The changes that wait for the rule log; `oldest_ms` is the time at which the oldest was saved."""

    pending: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class RuleChanged:
    """An event for listeners of the service: a rule has a new revision or approval. `rule_id` is None for a control."""

    rule_id: int | None
    revision: int | None

"""What the desk takes and gives: frozen, times in epoch milliseconds, numbers in documents `int` or `Decimal`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.roles import Role
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
"""A rule as the rule log has it; numbers are `int` or `Decimal`, never floats (a float is refused as no number)."""


class Verdict(StrEnum):
    """What an analyst says of an alert."""

    FRAUD = "FRAUD"
    NOT_FRAUD = "NOT_FRAUD"


class ImportEffect(StrEnum):
    """What an import does with one of its records."""

    ADD = "added"  # a new draft
    CHANGE = "changed"
    REQUEST = "requested"  # somebody else must approve it
    DELETE = "deleted"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class RuleGiven:
    """A rule as somebody gives it, in exactly one of the forms. `text` is JSON, or the one-line text form."""

    document: Document | None = None
    text: str | None = None
    yaml: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list; `next` continues it, None at its end."""

    items: tuple[T, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One member of a rule, before and after; None where it has none."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """Something asked for. `action` is `state`, `edit` or `rollback`; `target` the state wanted, for `state`.

    `document` is what the rule will be, and `author` wrote it. `decision` is `approved`, `rejected` or `withdrawn` (the
    rule has changed since), None while it is open; `revision` is the rule's when it was asked for.
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
    """A rule as it is wanted now. `log_version` is the offset of the record that says so in the rule log.

    `log_version` is None while the newest change has not reached the log (or is for the store alone, as drafts are);
    `published` tells the two apart: false only while something is on its way.
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
    """A rule with its forms as text; `text` is None where the one-line form cannot hold it. `says` is it in words."""

    row: RuleRow
    yaml: str
    text: str | None
    says: str
    author: str  # who wrote the document, not who moved it last
    next_states: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule looked at, and not saved. `changes` compares it with the stored one, where there is one."""

    valid: bool
    reasons: tuple[Reason, ...]
    document: Document | None
    yaml: str | None
    text: str | None
    says: str | None
    changes: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class VersionView:
    """A revision. `log_version` is its record's offset in the rule log; None for what has not been, or never goes,
    there.
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
    """A control on its way to the rule log; `seq` is its place in the outbox."""

    control: str
    seq: int


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One record of an import; `where` names it (`rule 3`)."""

    where: str
    rule_id: int | None
    effect: ImportEffect
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """An import: all of it is applied, or nothing is."""

    items: tuple[ImportItem, ...]
    applied: bool


@dataclass(frozen=True, slots=True)
class MarkView:
    """What somebody said of an alert."""

    alert_id: str
    rule_id: int
    rule_version: int
    verdict: Verdict
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SnoozeView:
    """Alerts of a rule nobody wants to see until then: those of one key (as the alert has it), or all (`key` None)."""

    id: int
    rule_id: int
    key: Document | None
    until_ms: int
    who: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change. `before` and `after` are JSON-ready; `hash` is over the row and `previous_hash`, in hex."""

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
    """Whether every row of the audit log is what was written; `broken_at` is the first that is not."""

    whole: bool
    rows: int
    broken_at: int | None
    head: str  # the hash of the last row


@dataclass(frozen=True, slots=True)
class BindingView:
    """A user's role; `by` is None for one from the configuration file."""

    user: str
    role: Role
    by: str | None
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class OutboxState:
    """What has not reached the rule log yet; `oldest_ms` is when the oldest of it was saved."""

    pending: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class RuleChanged:
    """For who listens to the desk: a rule has a new revision or approval; `rule_id` is None for a control."""

    rule_id: int | None
    revision: int | None

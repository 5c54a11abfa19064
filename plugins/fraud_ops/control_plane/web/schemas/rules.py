"""Schemas of rules, revisions, approvals, controls and imports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from fraud_ops.control_plane.web.schemas.base import (
    Comment,
    Document,
    EpochMs,
    ProblemReason,
    Request,
    RuleId,
    RuleText,
    Shape,
)

__all__ = [
    "Activation",
    "Approval",
    "Approvals",
    "Change",
    "ControlName",
    "ControlRequest",
    "ControlResult",
    "Decision",
    "Diff",
    "ImportItem",
    "ImportRequest",
    "ImportResult",
    "Operations",
    "Quality",
    "RefusedRecords",
    "RollbackRequest",
    "RuleDetail",
    "RuleRow",
    "Rules",
    "StateName",
    "StateRequest",
    "ValidateRequest",
    "Validation",
    "Version",
    "Versions",
    "WriteRequest",
]  # fmt: skip

MINUTES = 60


class StateName(StrEnum):
    """The state of a rule."""

    DRAFT = "DRAFT"
    SHADOW = "SHADOW"
    ACTIVE = "ACTIVE"
    PAUSE = "PAUSE"
    DELETE = "DELETE"


class Activation(Shape):
    """The detector's report about a record of the rule log. PENDING: the detector has not reported yet."""

    log_version: int
    rule_id: int | None
    status: Literal["PENDING", "LIVE", "REJECTED"]
    reasons: list[ProblemReason]
    batch_id: int | None
    time: EpochMs | None


class RefusedRecords(Shape):
    """The records of the rule log that the detector rejected, newest first."""

    items: list[Activation]


class DecisionName(StrEnum):
    """The decision about a request. WITHDRAWN: by the requesting user, or because the rule has changed since."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"


class Approval(Shape):
    """A request for approval of a change."""

    id: int
    rule_id: int
    revision: int
    action: str = Field(description="state, edit or rollback.")
    target: StateName | None
    author: str = Field(description="The user who wrote the document; with four eyes, this user may not approve it.")
    requested_by: str
    requested_at: EpochMs
    comment: str
    decision: DecisionName | None
    decided_by: str | None
    decided_at: EpochMs | None
    decision_comment: str | None
    document: Document = Field(description="The rule after approval.")


class Approvals(Shape):
    """A page of requests for approval, newest first."""

    items: list[Approval]
    next: str | None


class Quality(Shape):
    """The alert marks of a rule. `precision` is the share of marked alerts that were fraud."""

    alerts: int
    fraud: int
    not_fraud: int
    precision: float | None


class RuleRow(Shape):
    """A rule in a list. `activation` concerns its newest record in the rule log; the rule is live if it says LIVE."""

    rule_id: int
    name: str | None
    description: str | None
    severity: str | None
    owner: str | None
    state: StateName
    revision: int
    updated_at: EpochMs
    updated_by: str
    source: str
    document: Document
    published: bool = Field(description="False only while the newest change waits for the rule log.")
    activation: Activation | None
    pending_approval: Approval | None
    alerts_last_hour: list[int] = Field(description="By minute, oldest first.", max_length=MINUTES)
    quality: Quality


class Rules(Shape):
    """A page of rules by id. `next` is the cursor of the next page."""

    items: list[RuleRow]
    next: str | None


class RuleDetail(RuleRow):
    """A rule with its forms. `text` is null if the one-line form cannot express the rule."""

    yaml: str
    text: str | None
    says: str = Field(description="The rule in words.")
    author: str = Field(description="The user who wrote the document.")
    next_states: list[StateName]


class WriteRequest(Request):
    """A rule to save, in exactly one form. `text` is JSON or the one-line form."""

    document: Document | None = None
    text: RuleText | None = None
    yaml: RuleText | None = None
    comment: Comment = ""


class ValidateRequest(Request):
    """A rule to validate, in exactly one form. `ruleId` is the stored rule for the comparison."""

    rule_id: RuleId | None = None

    document: Document | None = None
    text: RuleText | None = None
    yaml: RuleText | None = None


class Change(Shape):
    """A member that differs. A value is null if the rule lacks the member."""

    field: str
    before: object
    after: object


class Diff(Shape):
    """The differences between two revisions."""

    changes: list[Change]


class Validation(Shape):
    """All faults of a rule, or the other forms of a valid rule."""

    valid: bool
    reasons: list[ProblemReason]
    document: Document | None
    yaml: str | None
    text: str | None
    says: str | None
    changes: list[Change]


class Version(Shape):
    """A revision of a rule."""

    revision: int
    state: StateName
    document: Document
    author: str
    at: EpochMs
    comment: str
    source: str
    log_version: int | None
    activation: Activation | None


class Versions(Shape):
    """A page of revisions, newest first."""

    items: list[Version]
    next: str | None


class StateRequest(Request):
    """The new state of a rule."""

    state: StateName
    comment: Comment = ""


class RollbackRequest(Request):
    """The revision whose document becomes a new revision."""

    revision: Annotated[int, Field(ge=1, le=2**53)]
    comment: Comment = ""


class Decision(Request):
    """A decision about a request, with a comment."""

    comment: Comment = ""


class ControlName(StrEnum):
    """The controls, which concern all rules or all state."""

    CLEAR_STATE_ALL = "CLEAR_STATE_ALL"
    CLEAR_STATE_ALL_STOP = "CLEAR_STATE_ALL_STOP"
    DELETE_RULES_ALL = "DELETE_RULES_ALL"
    EXPORT_RULES_CURRENT = "EXPORT_RULES_CURRENT"


class ControlRequest(Request):
    """A control to send. `confirm` must repeat its name, typed by the user."""

    control: ControlName
    confirm: Annotated[str, Field(max_length=100)] = ""
    comment: Comment = ""


class ControlResult(Shape):
    """A control that waits for the rule log."""

    control: ControlName
    seq: int = Field(description="Its number in the outbox.")


class ImportRequest(Request):
    """A file of rules. Without `format`, the content determines the format."""

    content: Annotated[str, Field(max_length=4_194_304)]
    format: Literal["json", "yaml", "text"] | None = None
    comment: Comment = ""


class ImportItem(Shape):
    """The effect of one rule of the file."""

    where: str
    rule_id: int | None
    effect: Literal["added", "changed", "requested", "deleted", "unchanged", "rejected"]
    reasons: list[ProblemReason]


class ImportResult(Shape):
    """The result of an import, rule by rule. If one rule is rejected, or in a dry run, nothing is applied."""

    items: list[ImportItem]
    applied: bool


class Operations(Shape):
    """The detector's reports about records of the rule log, by version."""

    items: list[Activation]

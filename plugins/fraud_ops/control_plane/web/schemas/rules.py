"""Rules, their versions, approvals, and what is asked for about them."""

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
    """Where a rule is in its life."""

    DRAFT = "DRAFT"
    SHADOW = "SHADOW"
    ACTIVE = "ACTIVE"
    PAUSE = "PAUSE"
    DELETE = "DELETE"


class Activation(Shape):
    """What the detector has said of a record of the rule log. PENDING: it has not said anything yet."""

    log_version: int
    rule_id: int | None
    status: Literal["PENDING", "LIVE", "REJECTED"]
    reasons: list[ProblemReason]
    batch_id: int | None
    time: EpochMs | None


class RefusedRecords(Shape):
    """Records of the rule log that the detector refused, newest first."""

    items: list[Activation]


class DecisionName(StrEnum):
    """What became of something asked for. WITHDRAWN: by who asked, or the rule has changed since."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"


class Approval(Shape):
    """A change that waits, or waited, for a second person."""

    id: int
    rule_id: int
    revision: int
    action: str = Field(description="state, edit or rollback.")
    target: StateName | None
    author: str = Field(description="Who wrote the document; with four eyes they may not approve it.")
    requested_by: str
    requested_at: EpochMs
    comment: str
    decision: DecisionName | None
    decided_by: str | None
    decided_at: EpochMs | None
    decision_comment: str | None
    document: Document = Field(description="What the rule will be.")


class Approvals(Shape):
    """Newest first."""

    items: list[Approval]
    next: str | None


class Quality(Shape):
    """What analysts have said of a rule's alerts. `precision` is the share of frauds of those marked."""

    alerts: int
    fraud: int
    not_fraud: int
    precision: float | None


class RuleRow(Shape):
    """A rule in a list. `activation` is of its newest record in the rule log: it is live when that says LIVE."""

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
    published: bool = Field(description="False only while its newest change is on its way to the rule log.")
    activation: Activation | None
    pending_approval: Approval | None
    alerts_last_hour: list[int] = Field(description="By minute, oldest first.", max_length=MINUTES)
    quality: Quality


class Rules(Shape):
    """A page of rules by id; `next` is the cursor of the page after it."""

    items: list[RuleRow]
    next: str | None


class RuleDetail(RuleRow):
    """One rule; `text` is null where the one-line form cannot hold it."""

    yaml: str
    text: str | None
    says: str = Field(description="The rule in words.")
    author: str = Field(description="Who wrote the document.")
    next_states: list[StateName]


class WriteRequest(Request):
    """A rule to save, in one of its forms; `text` is JSON or the one-line form."""

    document: Document | None = None
    text: RuleText | None = None
    yaml: RuleText | None = None
    comment: Comment = ""


class ValidateRequest(Request):
    """A rule to look at, in one of its forms; `ruleId` is the stored rule to compare it with."""

    rule_id: RuleId | None = None

    document: Document | None = None
    text: RuleText | None = None
    yaml: RuleText | None = None


class Change(Shape):
    """One member that differs; null where it is not there."""

    field: str
    before: object
    after: object


class Diff(Shape):
    """What differs between two revisions."""

    changes: list[Change]


class Validation(Shape):
    """Everything wrong with a rule at once; the other forms of it where nothing is."""

    valid: bool
    reasons: list[ProblemReason]
    document: Document | None
    yaml: str | None
    text: str | None
    says: str | None
    changes: list[Change]


class Version(Shape):
    """One revision of a rule."""

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
    """Newest first."""

    items: list[Version]
    next: str | None


class StateRequest(Request):
    """Where a rule is to go."""

    state: StateName
    comment: Comment = ""


class RollbackRequest(Request):
    """The revision whose document is to be in force again, as a new revision."""

    revision: Annotated[int, Field(ge=1, le=2**53)]
    comment: Comment = ""


class Decision(Request):
    """Why."""

    comment: Comment = ""


class ControlName(StrEnum):
    """Commands about all rules, or all state."""

    CLEAR_STATE_ALL = "CLEAR_STATE_ALL"
    CLEAR_STATE_ALL_STOP = "CLEAR_STATE_ALL_STOP"
    DELETE_RULES_ALL = "DELETE_RULES_ALL"
    EXPORT_RULES_CURRENT = "EXPORT_RULES_CURRENT"


class ControlRequest(Request):
    """`confirm` repeats the control's name, typed by a person."""

    control: ControlName
    confirm: Annotated[str, Field(max_length=100)] = ""
    comment: Comment = ""


class ControlResult(Shape):
    """The control is on its way into the rule log."""

    control: ControlName
    seq: int = Field(description="Its place among what waits for the rule log.")


class ImportRequest(Request):
    """A file of rules; without `format`, as its content looks."""

    content: Annotated[str, Field(max_length=4_194_304)]
    format: Literal["json", "yaml", "text"] | None = None
    comment: Comment = ""


class ImportItem(Shape):
    """What a rule of the file does, or would do."""

    where: str
    rule_id: int | None
    effect: Literal["added", "changed", "requested", "deleted", "unchanged", "rejected"]
    reasons: list[ProblemReason]


class ImportResult(Shape):
    """Rule by rule; nothing is applied when one is refused, or in a dry run."""

    items: list[ImportItem]
    applied: bool


class Operations(Shape):
    """What the detector said of records of the rule log, by version."""

    items: list[Activation]

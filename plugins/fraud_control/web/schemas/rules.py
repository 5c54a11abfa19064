"""Schemas of rules, revisions, approvals, controls and imports."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import (
    Approval,
    Change,
    ControlName,
    EpochMs,
    PresentFigures,
    ProblemReason,
    Revision,
    RuleComparison,
    RuleOutcome,
    RuleUse,
    ShadowFigures,
    StoredRule,
)
from fraud_control.service.rules.sample_value import ExpressionMember
from fraud_control.web.schemas.base import Comment, Document, Items, Paged, Request, ResponseModel, RuleId, RuleText
from fraud_control.web.schemas.derived import Derived
from fraud_rules.batch.whatif.coverage import Coverage

MINUTES = 60

PaymentText: TypeAlias = Annotated[str, Field(min_length=1, max_length=32_768)]


class WarmUp(ResponseModel):
    """The warm-up of a rule: the addition of the transactions before it."""

    state: Literal["REQUESTED", "RUNNING", "WARM", "REFUSED"]
    progress: float | None = Field(description="The completed part of a running job, from 0 to 1.")
    time: EpochMs | None = Field(description="The time of the batch that ended the warm-up.")
    batch_id: int | None
    rows: int = Field(description="The number of added transactions.")
    since: EpochMs | None = Field(description="The event time from which the history is complete.")
    reason: str = Field(description="The reason of a refusal.")


class Activation(ResponseModel):
    """The detector's report about a record of the rule log. PENDING: the detector has not reported yet. `warm_up` is
    null for a rule that requests none."""

    log_version: int
    rule_id: int | None
    list_name: str | None
    map_name: str | None
    status: Literal["PENDING", "LIVE", "REJECTED"]
    reasons: list[ProblemReason]
    batch_id: int | None
    time: EpochMs | None
    warm_up: WarmUp | None


class SavedWhatIf(ResponseModel):
    """A saved what-if of a rule. `labels` has the caught frauds and false alerts; null without labels.

    `alertsPerDay` is the rate in the covered time. Reports of earlier releases have neither.
    """

    at: EpochMs
    report: str = Field(description="The address of the report.")
    days: list[str]
    transactions: int
    fires: int
    alerts_per_day: float | None
    coverage: Annotated[Coverage, Derived(without=("whole",))] | None
    expected: tuple[int, int] | None = Field(description="Nine of ten days have from so many to so many alerts.")
    suppressed: int
    keys: int
    labels: dict[str, Any] | None


class ApprovalFigures(ResponseModel):
    """Figures about the rule of a request: as a shadow rule, and in its newest what-if. Null if there are none."""

    shadow: ShadowFigures | None
    present: PresentFigures | None = Field(description="The alerts of the active rule that the request changes.")
    what_if: SavedWhatIf | None
    running: bool = Field(description="Whether a what-if of the requested rule waits or runs.")


class ComparisonShown(ResponseModel):
    """The alerts of two rules by payment. Null unless both alert, live or as a shadow."""

    comparison: RuleComparison | None


class OutcomeShown(ResponseModel):
    """What a changed rule does. Null without a change in the last 30 days."""

    outcome: RuleOutcome | None
    report: str | None = Field(description="The address of the report of the what-if, null without a prediction.")


class Quality(ResponseModel):
    """The payments of a rule, those with a label, and the noise of its live alerts. See `RuleQuality`."""

    payments: int
    fraud: int
    not_fraud: int
    precision: float | None
    alerts_per_day: float
    false_alerts_per_day: float


class RuleRow(StoredRule):
    """A rule in a list. `activation` concerns its newest record in the rule log; the rule is live if it says LIVE."""

    activation: Activation | None
    pending_approval: Approval | None
    alerts_last_hour: list[int] = Field(description="By minute, oldest first.", max_length=MINUTES)
    quality: Quality


class RuleName(ResponseModel):
    """The name of a rule; empty for a rule without one."""

    rule_id: int
    name: str


class RuleDetail(RuleRow):
    """A rule with its forms. `text` is null if the one-line form cannot express the rule."""

    yaml: str
    text: str | None
    says: str = Field(description="The rule in words.")
    author: str = Field(description="The user who wrote the document.")
    next_states: list[StateName]
    cpu_ns: int | None = Field(description="The estimated CPU time for each transaction in ns, beside the grouping.")
    grouping_cpu_ns: int = Field(
        description="The estimated CPU time of the grouping for each transaction in ns, which all its rules share."
    )
    measured_cpu_ns: float | None = Field(
        description="The measured CPU time for each transaction in ns, null if the detector has not measured it lately."
    )
    named: list[RuleUse] = Field(description="The rules that its conditions name; state DELETE for a missing one.")
    named_by: list[RuleUse] = Field(description="The rules whose conditions name it, drafts too.")


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


class SampleRequest(Request):
    """The text of one member of a rule, to evaluate for a payment: by default the newest one with an alert.

    Payments have the declared fields as JSON or as a CSV line, with times in epoch ms or ISO-8601. Without a `previous`
    payment, the function of this name gives null.
    """

    member: ExpressionMember
    text: RuleText
    payment: PaymentText | None = None
    previous: PaymentText | None = None


class Diff(ResponseModel):
    """The differences between two revisions."""

    changes: list[Change]


class Version(Revision):
    """A revision of a rule. `approved`: its content was approved, so an approver rolls back to it at once."""

    activation: Activation | None
    approved: bool


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


class Approve(Decision):
    """An approval. With the `basis` of the request as the approver read it, a change since then is refused."""

    basis: Annotated[dict[str, int], Field(max_length=1_000)] | None = None


class ControlRequest(Request):
    """A control to send. `confirm` must repeat its name, typed by the user."""

    control: ControlName
    confirm: Annotated[str, Field(max_length=100)] = ""
    comment: Comment = ""


class ImportRequest(Request):
    """A file of rules. Without `format`, the content determines the format."""

    content: Annotated[str, Field(max_length=4_194_304)]
    format: Literal["json", "yaml", "text"] | None = None
    comment: Comment = ""


RejectedRecords: TypeAlias = Items[Activation]
Approvals: TypeAlias = Paged[Approval, str]
Rules: TypeAlias = Paged[RuleRow, str]
RuleNames: TypeAlias = Items[RuleName]
Versions: TypeAlias = Paged[Version, str]
Operations: TypeAlias = Items[Activation]

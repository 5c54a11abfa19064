"""Schemas of cases."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from fraud_control.domain.case_models import Case, CaseOutcome, CaseStatus
from fraud_control.domain.read_models import MarkVerdict
from fraud_control.web.schemas.base import Comment, Items, Paged, Request, ResponseModel
from fraud_control.web.schemas.decisions import PaymentDecision

AlertId = Annotated[str, Field(pattern=r"^[0-9A-Za-z-]{1,64}$")]
Through = Annotated[
    str | None,
    Field(max_length=100, description="The `position` of the newest alert that the user has seen. Null for all."),
]


class CaseOverviewShown(ResponseModel):
    """The money, the newest payments and the lists of a case, and cases of the other ids in its payments.

    A payment counts if it raised an alert of the case that is in effect. The newest 1,000 alerts are read.
    """

    field: str = Field(description="The field of the entity.")
    value: int | str = Field(description="The value of the entity, in the type of its field.")
    payments: int
    complete: bool = Field(description="False if the case has older alerts, which are not counted.")
    amount_field: str | None
    amount: str | None = Field(description="The exact sum of the payments. Null without an amount.")
    newest: list[dict[str, Any]] = Field(description="The newest 5 payments, newest first.")
    decisions: list[PaymentDecision] = Field(description="The decisions in memory about these payments.")
    decision: PaymentDecision | None = Field(description="The decision in memory with the highest score, of all.")
    lists: list[str] = Field(description="The lists that contain the entity.")
    related: list[Case] = Field(description="Cases of the other ids in the payments, open ones first.")


class AssignRequest(Request):
    """The new assignee; null for none."""

    assignee: Annotated[str, Field(min_length=1, max_length=256)] | None
    comment: Comment = ""


class CaseStatusRequest(Request):
    """The new status. Only CLOSED has an outcome, and requires it."""

    status: CaseStatus
    outcome: CaseOutcome | None = None
    through: Through = None
    comment: Comment = ""


class CaseCommentRequest(Request):
    """A comment on a case."""

    comment: Annotated[str, Field(min_length=1, max_length=2_000)]


class BulkCloseRequest(Request):
    """The outcome of all open cases of a filter. `marks`: also mark their unreviewed alerts as this outcome."""

    outcome: CaseOutcome
    marks: bool = False
    comment: Comment = ""


class BulkMarkRequest(Request):
    """The mark for all unreviewed alerts of a filter."""

    verdict: MarkVerdict
    comment: Comment = ""


class Matching(ResponseModel):
    """The number of cases or alerts that a bulk change of a filter would change. `more`: there are more."""

    count: int
    more: bool


class MarkCaseRequest(Request):
    """The mark for the unreviewed alerts of a case."""

    verdict: MarkVerdict
    through: Through = None


class MarkAlertsRequest(Request):
    """The mark for some alerts; null removes their marks."""

    alert_ids: Annotated[list[AlertId], Field(min_length=1, max_length=1_000)]
    verdict: MarkVerdict | None


Cases: TypeAlias = Paged[Case, int]
Assignees: TypeAlias = Items[str]

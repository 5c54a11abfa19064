"""Cases: their read models, and the search of the review queue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import Field

from fraud_control.domain.alert_search import AlertSeverity, ReviewSearch
from fraud_control.domain.read_models import EpochMs, JsonDocument, ReadModel

URGENCIES: Final = tuple(AlertSeverity)
"""The severities by urgency: the first is the most severe."""


class CaseStatus(StrEnum):
    """The status of a case. Only a closed case has an outcome."""

    OPEN = "OPEN"
    IN_WORK = "IN_WORK"
    CLOSED = "CLOSED"


class CaseOutcome(StrEnum):
    """The result of the work on a case. Only the control plane closes a case as EXPIRED (no person worked on it) or
    RETRACTED (none of its alerts is in effect).
    """

    FRAUD = "FRAUD"
    NOT_FRAUD = "NOT_FRAUD"
    INCONCLUSIVE = "INCONCLUSIVE"
    EXPIRED = "EXPIRED"
    RETRACTED = "RETRACTED"

    @property
    def is_decision(self) -> bool:
        """Whether a person can choose this outcome."""
        return self not in (CaseOutcome.EXPIRED, CaseOutcome.RETRACTED)


class CaseAction(StrEnum):
    """The action of an event of a case."""

    COMMENT = "comment"
    ASSIGN = "assign"
    STATUS = "status"
    MARK = "mark"


class CaseSort(StrEnum):
    """The order of the review queue. `severity` begins with the highest, and then with the oldest case."""

    SEVERITY = "severity"
    NEWEST = "newest"
    OLDEST = "oldest"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class CaseSearch(ReviewSearch):
    """The filters of the review queue. `text` and `entity` are those of the case, and the times bound all its alerts.

    `handed` selects the cases that another user has assigned to their assignee, and `overdue` those that should be
    closed by now. With `only_rule`, a case has alerts of no other rule than `rule_id`.
    """

    statuses: frozenset[CaseStatus] = frozenset()
    assignee: str | None = None
    unassigned: bool = False
    only_rule: bool = False
    handed: bool = False
    overdue: bool = False
    sort: CaseSort = CaseSort.SEVERITY


class CaseRule(ReadModel):
    """A rule with its alerts in a case."""

    rule_id: int
    alerts: int


class Case(ReadModel):
    """A case: the live alerts of one entity. `fraud`, `notFraud` and `unreviewed` count its alerts that the alert index
    has.
    """

    case_id: int
    entity_field: str
    entity_value: str
    status: CaseStatus
    outcome: CaseOutcome | None
    assignee: str | None
    handed_by: str | None = Field(description="The user who handed the case over to its assignee.")
    severity: AlertSeverity = Field(description="The highest severity of its alerts that are not retracted.")
    alerts: int = Field(description="The alerts that joined the case, also those that have left the alert index.")
    first_alert_ms: EpochMs = Field(serialization_alias="firstAlert")
    last_alert_ms: EpochMs = Field(serialization_alias="lastAlert")
    revision: int
    updated_ms: EpochMs | None = Field(serialization_alias="updatedAt")
    updated_by: str | None = Field(description="Null until a person works on the case.")
    fraud: int
    not_fraud: int
    unreviewed: int
    retracted: int = Field(description="Its retracted alerts. The other counts are without them.")
    expires_ms: EpochMs | None = Field(
        serialization_alias="expiresAt", description="When the case expires, if no person works on it until then."
    )
    due_ms: EpochMs | None = Field(
        serialization_alias="dueAt",
        description="When the case should be closed, by its severity. Null for a closed case, and without a severity.",
    )
    rules: list[CaseRule] = Field(description="The rules with the most alerts first.")
    amount: str | None = Field(
        description="The sum of the payments of its alerts that the alert index has, each once, without retracted ones."
    )


class CaseEvent(ReadModel):
    """A comment on a case, or a change of it."""

    event_id: int
    at_ms: EpochMs = Field(serialization_alias="at")
    who: str
    action: CaseAction
    detail: JsonDocument = Field(
        description="assign: `assignee`; status: `status` and `outcome`; mark: `verdict` and the number of `alerts`."
    )
    comment: str


class CaseDetail(Case):
    """A case with its newest events, and the earlier and later cases of its entity."""

    events: list[CaseEvent]
    same_entity: list[Case]


class BulkChange(ReadModel):
    """The result of a change of all that match a filter. If `remaining` is not 0, repeat the request."""

    cases: int
    marked: int = Field(description="The alerts that got a mark, or lost it by an undo.")
    remaining: int = Field(description="Those that match and are not changed. After an undo: cases that stay closed.")
    audit_row: int | None = Field(description="The row of the audit log, for an undo. Null if nothing has changed.")


class BulkMarks(ReadModel):
    """The result of marking several alerts. If `remaining` is not 0, repeat the request."""

    marked: int
    unchanged: int = Field(description="The alerts that have this mark already.")
    remaining: int = Field(description="The alerts of the case that are still to be marked.")
    unknown: list[str] = Field(description="The alerts that the alert index does not have.")

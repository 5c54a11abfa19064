"""Schemas of alerts, corrections, evidence, alert marks, snoozes and rule quality."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from fraud_control.domain.alert_search import SavedSearch
from fraud_control.domain.label_models import LabelQuality
from fraud_control.domain.read_models import EpochMs, Mark, MarkVerdict, Snooze
from fraud_control.web.schemas.base import Comment, Document, Items, Request, ResponseModel, RuleId
from fraud_control.web.schemas.derived import model_of
from fraud_rules.model.documents.alerts import AlertDocument

Key = dict[str, bool | int | str]


class Correction(ResponseModel):
    """The result of the re-evaluation of the day: the alert was missing (ADDED) or wrong (RETRACTED)."""

    kind: Literal["ADDED", "RETRACTED"]
    time: EpochMs


_Published: Any = model_of(
    AlertDocument, {"violated_rule": Document, "key": dict[str, Any], "triggering_event": dict[str, Any]}
)


class Alert(_Published):  # type: ignore[misc]  # mypy does not know a derived class
    """An alert as published, with its correction, mark and snooze. A page of older alerts begins at `position`.

    Alerts of rules with a baseline have `baseline`. Alerts of rules that name lists or maps have `lists` or `maps`: the
    version of each.
    Alerts of rules whose limit is an expression have `limit`: its value as a decimal. Alerts of rules that read the
    previous payment have `previous`: its id and these fields, or null. Alerts of rules that group by an entity have
    `role`: that of the entity in the payment.
    """

    model_config = ConfigDict(extra="allow")

    append_time: EpochMs
    position: str
    correction: Correction | None
    mark: Mark | None
    snoozed: bool


class Alerts(ResponseModel):
    """A page of alerts, newest first. `next` is the `before` of the next page."""

    items: list[Alert]
    next: str | None
    searched_to: EpochMs | None = Field(description="If the page is not full: the time back to which the search went.")
    missing: str | None = Field(description="At the end of the list: the alerts that retention has deleted.")


class SaveSearchRequest(Request):
    """A search to save."""

    query: Annotated[str, Field(max_length=2_000, description="The query string of the page's address, without `?`.")]


class AlertBatch(ResponseModel):
    """A bundle of alerts on the stream: `count` alerts, of which `items` has the newest."""

    items: list[Alert]
    count: int


class CorrectionEvent(ResponseModel):
    """A correction on the stream. `alert` is the alert, if the correction carries it."""

    alert_id: str
    kind: Literal["ADDED", "RETRACTED"]
    time: EpochMs
    rule_id: int | None
    alert: Alert | None


class Gap(ResponseModel):
    """Memory lacks the events that the reader missed: load the alerts again."""

    from_: str = Field(alias="from")


class MarkRequest(Request):
    """A mark to save."""

    verdict: MarkVerdict


class SnoozeRequest(Request):
    """A snooze of a rule, or of one key of it, until a time."""

    rule_id: RuleId
    key: Annotated[Key, Field(max_length=16)] | None = None
    until: EpochMs
    reason: Comment = ""


class Overlap(ResponseModel):
    """Another rule that fires for the same transactions, with the share of this rule's alerts."""

    rule_id: int
    share: float


class QualityRow(ResponseModel):
    """The fires of a rule, over the alerts in memory."""

    rule_id: int
    alerts: int
    per_hour: float = Field(description="The rate; for a rule whose first alert is under an hour old, its alerts.")
    since: EpochMs = Field(description="The time of the first alert.")
    overlap: list[Overlap]
    flooding: bool


class QualityTable(ResponseModel):
    """The fires of the rules with alerts in memory, and the quality of the rules by labels."""

    items: list[QualityRow]
    labels: LabelQuality


SavedSearches: TypeAlias = Items[SavedSearch]
Snoozes: TypeAlias = Items[Snooze]

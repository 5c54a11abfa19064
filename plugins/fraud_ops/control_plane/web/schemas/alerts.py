"""Alerts, what made them up, and what people say of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from fraud_ops.control_plane.web.schemas.base import Document, EpochMs, Request, RuleId, Shape

__all__ = [
    "Alert", "AlertBatch", "Alerts", "Correction", "CorrectionEvent", "Evidence", "Gap", "Mark", "MarkRequest",
    "Overlap", "QualityRow", "QualityTable", "RuleChanged", "Snooze", "SnoozeRequest", "Snoozes",
]  # fmt: skip

Key = dict[str, int | str]


class Correction(Shape):
    """What a later evaluation of the day found: the alert was missing (ADDED), or should not have been (RETRACTED)."""

    kind: Literal["ADDED", "RETRACTED"]
    time: EpochMs


class Mark(Shape):
    """What a person says of an alert."""

    verdict: Literal["FRAUD", "NOT_FRAUD"]
    who: str
    at: EpochMs


class Alert(Shape):
    """An alert as published, and what became of it. `position` is where a page of older ones begins."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="allow")

    alert_id: str
    rule_id: int
    rule_version: int
    violated_rule: Document
    key: dict[str, Any]
    triggering_value: str
    triggering_event: dict[str, Any]
    window_start: int
    window_end: int
    window_count: int
    window_complete: bool
    suppressed: int
    event_time: int
    ingestion_time: int
    detection_time: int
    shadow: bool
    append_time: EpochMs
    position: str
    correction: Correction | None
    mark: Mark | None
    snoozed: bool


class Alerts(Shape):
    """A page, newest first; `next` goes into `before`."""

    items: list[Alert]
    next: str | None
    searched_to: EpochMs | None = Field(description="How far back it was searched, where the page is not full.")
    missing: str | None = Field(description="What is no longer kept, where the list ends.")


class AlertBatch(Shape):
    """Several alerts at once on the stream: `count` of them, of which `items` are the newest."""

    items: list[Alert]
    count: int


class CorrectionEvent(Shape):
    """A correction on the stream; `alert` is the alert's JSON where the correction carries it."""

    alert_id: str
    kind: Literal["ADDED", "RETRACTED"]
    time: EpochMs
    rule_id: int | None
    alert: Alert | None


class Gap(Shape):
    """What was missed is older than what is kept in memory: read the alerts anew."""

    from_: str = Field(alias="from")


class RuleChanged(Shape):
    """A rule was changed; null for all of them."""

    rule_id: int | None
    revision: int | None


class Evidence(Shape):
    """The transactions of an alert's key in its window, as the rule's filter let them through, oldest first."""

    transactions: list[dict[str, Any]]
    count: int
    complete: bool
    missing: str | None = Field(description="Why some are not here, where that is so.")


class MarkRequest(Request):
    """What a person says of an alert."""

    verdict: Literal["FRAUD", "NOT_FRAUD"]


class SnoozeRequest(Request):
    """Alerts of a rule, or of one key of it, are not to be shown until then."""

    rule_id: RuleId
    key: Annotated[Key, Field(max_length=16)] | None = None
    until: EpochMs
    reason: Annotated[str, Field(max_length=2_000)] = ""


class Snooze(Shape):
    """A snooze in force."""

    id: int
    rule_id: int
    key: dict[str, Any] | None
    until: EpochMs
    who: str
    reason: str
    at: EpochMs


class Snoozes(Shape):
    """Those that have not expired."""

    items: list[Snooze]


class Overlap(Shape):
    """Another rule that fires for the same transactions: the share of this rule's alerts."""

    rule_id: int
    share: float


class QualityRow(Shape):
    """How a rule does, over the alerts that are remembered."""

    rule_id: int
    alerts: int
    per_hour: float
    fraud: int
    not_fraud: int
    precision: float | None
    overlap: list[Overlap]
    flooding: bool


class QualityTable(Shape):
    """By rule."""

    items: list[QualityRow]

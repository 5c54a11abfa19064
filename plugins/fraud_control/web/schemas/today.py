"""Schemas of the page of the day."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, RecentChange
from fraud_control.web.schemas.base import ResponseModel

__all__ = ["DayHour", "DayKeys", "DayRule", "KeyAlerts", "PredictedDay", "TodayShown"]


class DayHour(ResponseModel):
    """The alerts of the hour that begins at `time`: live alerts by severity (empty for none), and shadow alerts."""

    time: EpochMs
    live: dict[str, int]
    shadow: int


class DayRule(ResponseModel):
    """The live and shadow alerts of a rule."""

    rule_id: int
    name: str
    severity: str
    live: int
    shadow: int


class KeyAlerts(ResponseModel):
    """The live alerts about one value of a grouping field."""

    value: str
    alerts: int


class DayKeys(ResponseModel):
    """The values of a grouping field with the most live alerts."""

    field: str
    values: list[KeyAlerts]


class PredictedDay(ResponseModel):
    """A rule in the first 30 days after its approval: its predicted alerts of a day, from `low` to `high`, and its live
    and shadow alerts of the last whole day (UTC), or of the present one if none is whole yet. `off`: those of a whole
    day are outside.
    """

    rule_id: int
    name: str
    day: str
    alerts: int
    shadow: int
    per_day: float
    low: int
    high: int
    off: bool


class TodayShown(ResponseModel):
    """The figures of the last 24 hours, from `since` on. Rules and keys are those with the most alerts."""

    at: EpochMs
    since: EpochMs
    complete: bool = Field(description="False while the server reads older alerts, or if it cannot read all of them.")
    hours: list[DayHour]
    alerts: int = Field(description="The live alerts.")
    shadow_alerts: int
    unreviewed: int = Field(description="The live alerts without a mark.")
    open_cases: int = Field(description="The cases that are not closed.")
    unassigned_cases: int = Field(description="The open cases without an assignee.")
    overdue_cases: int = Field(description="The open cases that should be closed by now, by their severity.")
    decisions: dict[Literal["DECLINE", "REVIEW", "NOTE"], int]
    rules: list[DayRule]
    keys: list[DayKeys]
    changes: list[RecentChange]
    predicted: list[PredictedDay]

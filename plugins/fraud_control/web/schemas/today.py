"""Schemas of the page of the day."""

from __future__ import annotations

from fraud_control.service.today import Today
from fraud_control.web.schemas.base import ResponseModel


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


class TodayShown(Today):
    """The figures of the last 24 hours, with the rules that have a prediction."""

    predicted: list[PredictedDay]

"""The route of the page of the day."""

from __future__ import annotations

from fastapi import Response

from fraud_control.service.rules.outcomes import PredictedRule
from fraud_control.service.today import Today
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.base import ResponseModel

routes = router("today")


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


@routes.get("/today", response_model=TodayShown, openapi_extra=least("viewer", LaneName.READS))
def get_today(plane: CurrentPlane) -> Response:
    """Read the figures of the last 24 hours: alerts, decisions, unreviewed alerts, and the newest changes of rules."""
    predicted = [_predicted(each) for each in plane.predicted()]
    return answer(TodayShown(**vars(plane.today()), predicted=predicted))


def _predicted(rule: PredictedRule) -> PredictedDay:
    return PredictedDay(
        rule_id=rule.rule_id,
        name=rule.name,
        day=str(rule.day),
        alerts=rule.alerts,
        shadow=rule.shadow,
        per_day=rule.prediction.per_day,
        low=rule.prediction.low,
        high=rule.prediction.high,
        off=rule.off,
    )

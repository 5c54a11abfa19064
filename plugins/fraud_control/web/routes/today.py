"""The route of the page of the day."""

from __future__ import annotations

from fastapi import Response

from fraud_control.service.rules.outcomes import PredictedRule
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import today as schemas

routes = router("today")


@routes.get("/today", response_model=schemas.TodayShown, openapi_extra=least("viewer", LaneName.READS))
def get_today(plane: CurrentPlane) -> Response:
    """Read the figures of the last 24 hours: alerts, decisions, unreviewed alerts, and the newest changes of rules."""
    predicted = [_predicted(each) for each in plane.predicted()]
    return answer(schemas.TodayShown(**vars(plane.today()), predicted=predicted))


def _predicted(rule: PredictedRule) -> schemas.PredictedDay:
    return schemas.PredictedDay(
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

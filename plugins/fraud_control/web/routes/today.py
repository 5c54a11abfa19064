"""The route of the page of the day."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from fraud_control.service.rules.outcomes import PredictedRule
from fraud_control.service.today import Today
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import today as schemas

__all__ = ["routes"]

routes = router("today")


@routes.get("/today", response_model=schemas.TodayShown, openapi_extra=least("viewer", LaneName.READS))
def get_today(plane: CurrentPlane) -> Response:
    """Read the figures of the last 24 hours: alerts, decisions, unreviewed alerts, and the newest changes of rules."""
    return answer(_shown(plane.today(), plane.predicted()))


def _shown(today: Today, predicted: Sequence[PredictedRule]) -> schemas.TodayShown:
    figures = today.figures
    live = sum(sum(hour.live.values()) for hour in figures.hours)
    return schemas.TodayShown(
        at=today.at_ms,
        since=figures.since_ms,
        complete=today.complete,
        hours=[schemas.DayHour(time=hour.at_ms, live=dict(hour.live), shadow=hour.shadow) for hour in figures.hours],
        alerts=live,
        shadow_alerts=sum(hour.shadow for hour in figures.hours),
        unreviewed=max(0, live - today.reviewed),
        open_cases=today.cases.cases,
        unassigned_cases=today.cases.unassigned,
        overdue_cases=today.cases.overdue,
        decisions={
            "DECLINE": figures.decisions.get("DECLINE", 0),
            "REVIEW": figures.decisions.get("REVIEW", 0),
            "NOTE": figures.decisions.get("NOTE", 0),
        },
        rules=[_rule(today, *counts) for counts in figures.rules],
        keys=[
            schemas.DayKeys(
                field=each.name,
                values=[schemas.KeyAlerts(value=value, alerts=alerts) for value, alerts in each.values],
            )
            for each in figures.keys
        ],
        changes=list(today.changes),
        predicted=[
            schemas.PredictedDay(
                rule_id=each.rule_id,
                name=each.name,
                day=str(each.day),
                alerts=each.alerts,
                shadow=each.shadow,
                per_day=each.prediction.per_day,
                low=each.prediction.low,
                high=each.prediction.high,
                off=each.off,
            )
            for each in predicted
        ],
    )


def _rule(today: Today, rule_id: int, live: int, shadow: int) -> schemas.DayRule:
    name, severity = today.names.get(rule_id, ("", ""))
    return schemas.DayRule(rule_id=rule_id, name=name, severity=severity, live=live, shadow=shadow)

"""Routes of decisions."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from fraud_control.feed.decisions import CorrectedScore, DecisionFilter, FeedDecision, OutcomeName
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import decisions as schemas
from fraud_control.web.schemas.base import MAX_ID

__all__ = ["decision_shown", "routes"]

routes = router("decisions")


@routes.get("/decisions", response_model=schemas.Decisions, openapi_extra=least("viewer"))
def list_decisions(
    plane: CurrentPlane,
    *,
    outcome: OutcomeName | None = None,
    transaction: Annotated[str, Query(max_length=200)] = "",
    rule_id: Annotated[int | None, Query(alias="ruleId", ge=1, le=MAX_ID)] = None,
    before: Annotated[int | None, Query(ge=0, le=MAX_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List the newest 20,000 decisions, newest first. `outcome` is the corrected outcome, if there is one.
    `transaction` searches for text in the transactionId; `ruleId` selects decisions with an alert of the rule."""
    found, following = plane.memory.decisions.page(DecisionFilter(outcome, transaction, rule_id), before, limit)
    return answer(schemas.Decisions(items=[decision_shown(*each) for each in found], next=following))


def decision_shown(decision: FeedDecision, corrected: CorrectedScore | None) -> schemas.PaymentDecision:
    """Convert a decision."""
    return schemas.PaymentDecision(
        transaction_id=str(decision.transaction_id),
        score=decision.score,
        outcome=decision.outcome,
        alerts=[
            schemas.DecisionAlert(
                rule_id=each.rule_id, rule_version=each.rule_version, alert_id=each.alert_id, weight=each.weight
            )
            for each in decision.alerts
        ],
        event_time=decision.event_ms,
        append_time=decision.append_ms,
        corrected=None
        if corrected is None
        else schemas.CorrectedDecision(score=corrected.score, outcome=corrected.outcome),
    )

"""Routes of decisions."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Response

from fraud_control.domain.errors import NotFound
from fraud_control.feed.decisions import CorrectedScore, DecisionFilter, FeedDecision, OutcomeName
from fraud_control.web.answer import ZIP_ANSWER, answer, zip_answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import decisions as schemas
from fraud_control.web.schemas.base import MAX_ID

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


@routes.get(
    "/decisions/proof",
    response_class=Response,
    responses=ZIP_ANSWER,
    openapi_extra=least("analyst", LaneName.EVIDENCE),
)
def download_decision_proof(plane: CurrentPlane, transaction: Annotated[str, Query(max_length=200)]) -> Response:
    """Download the proof of the newest decision about a payment, of the newest 20,000 decisions. It has the proofs of
    its alerts, whose records have whole ids. `fraud verify` checks it, see docs/proof.md.
    """
    found = plane.memory.decisions.of_transactions({transaction})
    if not found:
        raise NotFound("this decision is not in memory: use `fraud prove --decision --direct`")
    return zip_answer(plane.proofs.prove_decision(found[0][0]), f"{quote(transaction, safe='')}.proof.zip")


def decision_shown(decision: FeedDecision, corrected: CorrectedScore | None) -> schemas.PaymentDecision:
    """Convert a decision."""
    return schemas.PaymentDecision(
        transaction_id=str(decision.transaction_id),
        score=decision.score,
        outcome=decision.outcome,
        alerts=list(decision.alerts),
        event_time=decision.event_ms,
        append_time=decision.append_ms,
        corrected=corrected,
    )

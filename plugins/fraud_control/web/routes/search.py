"""The route of the search over everything."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import Field

from fraud_control.service.search import SearchFindings, search
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routes.decisions import decision_shown
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.decisions import PaymentDecision

routes = router("search")


class SearchFound(SearchFindings):
    """The first few findings of each kind."""

    decisions: list[PaymentDecision] = Field(description="The decisions in memory about the payment with this id.")


@routes.get("/search", response_model=SearchFound, openapi_extra=least("viewer"))
def search_everything(plane: CurrentPlane, q: Annotated[str, Query(max_length=200)]) -> Response:
    """Search for a payer or another id, a payment, a rule, a case or an alert. Ids match as a whole, those of cases
    also by their beginning, and rules by a part of their text."""
    with plane.store.reading() as work:
        found = search(work, q)
    decisions = [decision_shown(*each) for each in plane.memory.decisions.of_transactions({q.strip()})]
    return answer(SearchFound(**vars(found), decisions=decisions))

"""The route of the search over everything."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from fraud_control.service.search import search
from fraud_control.web.answer import answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routes.decisions import decision_shown
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import search as schemas

routes = router("search")


@routes.get("/search", response_model=schemas.SearchFound, openapi_extra=least("viewer"))
def search_everything(plane: CurrentPlane, q: Annotated[str, Query(max_length=200)]) -> Response:
    """Search for a payer or another id, a payment, a rule, a case or an alert. Ids match as a whole, those of cases
    also by their beginning, and rules by a part of their text."""
    with plane.store.reading() as work:
        found = search(work, q)
    decisions = [decision_shown(*each) for each in plane.memory.decisions.of_transactions({q.strip()})]
    return answer(schemas.SearchFound(**vars(found), decisions=decisions))

"""Routes about the data of people: the erasure of a person, and the removal of data beyond its retention."""

from __future__ import annotations

from fastapi import Response

from fraud_control.service import erasure, retention
from fraud_control.web.answer import answer
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import privacy as schemas

__all__ = ["routes"]

routes = router("privacy")


@routes.post("/erasures", response_model=erasure.Erasure, openapi_extra=least("admin"))
def erase_person(plane: CurrentPlane, actor: CurrentActor, body: schemas.EraseRequest) -> Response:
    """Erase what the store knows about a person: alerts, marks, cases with comments, snoozes, saved searches and
    notifications with the id in a masked field. The audit log keeps a pseudonym. `fraud erase` also erases the archive.
    """
    with plane.store.change(actor) as work:
        found = erasure.erase(work, actor, body.value)
    plane.forget_quality()
    plane.snoozing.forget()
    return answer(found)


@routes.post("/retention", response_model=retention.Expired, openapi_extra=least("admin"))
def remove_expired(plane: CurrentPlane, actor: CurrentActor) -> Response:
    """Remove closed cases, ended snoozes and rows of the audit log that are older than the settings permit, at most
    10,000 cases and 50,000 rows at once."""
    with plane.store.change(actor) as work:
        found = retention.remove_expired(work, actor)
    plane.snoozing.forget()
    return answer(found)

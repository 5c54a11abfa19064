"""Routes about the data of people: the erasure of a person, and the removal of data beyond its retention."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import Field

from fraud_control.service import erasure, retention
from fraud_control.web.answer import answer, json_answer, nothing
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.base import MAX_ID, Request

routes = router("privacy")


class EraseRequest(Request):
    """The person to erase. The body has the id, so that no log of addresses has it."""

    value: Annotated[str, Field(min_length=1, max_length=256, description="The id, such as that of a payer.")]


class CertificateRequest(Request):
    """A certificate of `fraud erase` with its seal."""

    certificate: dict[str, Any]
    seal: dict[str, Any]


@routes.post("/erasures", response_model=erasure.Erasure, openapi_extra=least("admin"))
def erase_person(plane: CurrentPlane, actor: CurrentActor, body: EraseRequest) -> Response:
    """Erase what the store knows about a person: alerts, marks, cases with comments, snoozes, saved searches and
    notifications with the id in a masked field. The audit log keeps a pseudonym. `fraud erase` also erases the archive.
    """
    with plane.store.change(actor) as work:
        found = erasure.erase(work, actor, body.value)
    plane.forget_quality()
    plane.snoozing.forget()
    return answer(found)


@routes.post("/erasures/certificates", status_code=204, openapi_extra=least("admin"))
def keep_certificate(plane: CurrentPlane, actor: CurrentActor, body: CertificateRequest) -> Response:
    """Keep the certificate of an erasure in the audit log. It has a pseudonym instead of the id."""
    with plane.store.change(actor) as work:
        erasure.keep_certificate(work, actor, body.model_dump())
    return nothing()


@routes.get("/erasures/certificates/{seq}", response_class=Response, openapi_extra=least("auditor"))
def download_certificate(plane: CurrentPlane, seq: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
    """Download the certificate in a row of the audit log, as JSON."""
    with plane.store.reading() as work:
        content = erasure.certificate_of(work.session, seq)
    return json_answer(content, headers={"Content-Disposition": f'attachment; filename="erasure-{seq}.json"'})


@routes.post("/retention", response_model=retention.Expired, openapi_extra=least("admin"))
def remove_expired(plane: CurrentPlane, actor: CurrentActor) -> Response:
    """Remove closed cases, ended snoozes and rows of the audit log that are older than the settings permit, at most
    10,000 cases and 50,000 rows at once."""
    with plane.store.change(actor) as work:
        found = retention.remove_expired(work, actor)
    plane.snoozing.forget()
    return answer(found)

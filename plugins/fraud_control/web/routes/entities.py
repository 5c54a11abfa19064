"""The route of an entity: everything about one value of a field, such as one payer."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import Query, Response

from fraud_control.service.collections.queries import containing
from fraud_control.web.answer import encode, json_answer
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routes.decisions import decision_shown
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.decisions import PaymentDecision
from fraud_control.web.schemas.derived import model_of
from fraud_rules.batch.entity.report import EntityReport

routes = router("entities")

_MORE: Final = {"decisions": list[PaymentDecision], "lists": list[str]}
"""The decisions in memory about the listed payments, and the lists with the value."""


class _Report(msgspec.Struct, rename="camel"):
    value: int | str
    payments: list[dict[str, msgspec.Raw]]


_read = msgspec.json.Decoder(_Report).decode


@routes.get("/entity", response_model=model_of(EntityReport, _MORE), openapi_extra=least("viewer", LaneName.ENTITIES))
def get_entity(
    plane: CurrentPlane,
    field: Annotated[str, Query(min_length=1, max_length=64)],
    value: Annotated[str, Query(min_length=1, max_length=256)],
    days: Annotated[int, Query(ge=1, le=365)] = 30,
) -> Response:
    """Read the payments of an entity of the last days from the archive and the topic, and evaluate the rules for them
    with the engine of the detector. Its alerts are at `/alerts?entity=FIELD:VALUE`."""
    report = plane.entities.report(field, value, days)
    found = _read(report)
    ids = {msgspec.json.decode(each["transactionId"]) for each in found.payments if "transactionId" in each}
    decisions = [
        decision_shown(*each).model_dump(by_alias=True)
        for each in plane.memory.decisions.of_transactions({str(each) for each in ids})
    ]
    with plane.store.reading() as work:
        lists = containing(work, found.value)
    more = {"decisions": decisions, "lists": lists}
    return json_answer(report[:-1] + b"," + encode(more)[1:])

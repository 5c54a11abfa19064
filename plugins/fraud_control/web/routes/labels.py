"""Routes of labels of transactions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Response
from pydantic import Field

from fraud_control.domain.label_models import LabelCounts, LabelUpload
from fraud_control.web.answer import answer
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas.base import Request, ResponseModel
from fraud_rules.kafka.decoding import skipped_by_topic

routes = router("labels")


class LabelSources(ResponseModel):
    """The labels that what-ifs use, by source. `unreadable` counts the records of the topic that this server has
    skipped."""

    sources: list[LabelCounts]
    unreadable: int


class LabelUploadRequest(Request):
    """A file of labels: CSV with a header, or JSON Lines. `name` is its name, for the audit log."""

    name: str
    format: Literal["csv", "jsonl"]
    content: Annotated[str, Field(max_length=16_777_216)]


@routes.get("/labels", response_model=LabelSources, openapi_extra=least("viewer"))
def count_labels(plane: CurrentPlane) -> Response:
    """Count the labels that what-ifs use, by source."""
    skipped = skipped_by_topic().get(plane.detector.topics.labels, 0)
    return answer(LabelSources(sources=plane.labels.counts(), unreadable=skipped))


@routes.post("/labels", response_model=LabelUpload, openapi_extra=least("analyst", LaneName.FILES))
def upload_labels(plane: CurrentPlane, actor: CurrentActor, body: LabelUploadRequest) -> Response:
    """Save the labels of a file. A later label of a transaction replaces an earlier one."""
    uploaded = plane.labels.upload(actor, body.name, body.format, body.content)
    plane.forget_quality()
    return answer(uploaded)

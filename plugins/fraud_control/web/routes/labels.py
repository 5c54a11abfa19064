"""Routes of labels of transactions."""

from __future__ import annotations

from fastapi import Response

from fraud_control.domain.label_models import LabelUpload
from fraud_control.web.answer import answer
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import labels as schemas
from fraud_rules.kafka.decoding import skipped_by_topic

routes = router("labels")


@routes.get("/labels", response_model=schemas.LabelSources, openapi_extra=least("viewer"))
def count_labels(plane: CurrentPlane) -> Response:
    """Count the labels that what-ifs use, by source."""
    skipped = skipped_by_topic().get(plane.detector.topics.labels, 0)
    return answer(schemas.LabelSources(sources=plane.labels.counts(), unreadable=skipped))


@routes.post("/labels", response_model=LabelUpload, openapi_extra=least("analyst", LaneName.FILES))
def upload_labels(plane: CurrentPlane, actor: CurrentActor, body: schemas.LabelUploadRequest) -> Response:
    """Save the labels of a file. A later label of a transaction replaces an earlier one."""
    uploaded = plane.labels.upload(actor, body.name, body.format, body.content)
    plane.forget_quality()
    return answer(uploaded)

"""Alerts: pages of them, the stream, what made them up, and what people say of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from fraud_ops.control_plane.web.routing import least, router
from fraud_ops.control_plane.web.shapes import alerts as shapes
from fraud_ops.control_plane.web.shapes.base import MAX_ID

__all__ = ["routes"]

routes = router("alerts")

AlertId = Annotated[str, Path(pattern=r"^[0-9a-fA-F-]{36}$")]
Position = Annotated[str | None, Query(max_length=100)]
OfRule = Annotated[int | None, Query(alias="ruleId", ge=1, le=MAX_ID)]


@routes.get("/alerts", response_model=shapes.Alerts, openapi_extra=least("viewer"))
def list_alerts(
    *,
    rule_id: OfRule = None,
    key: Annotated[str, Query(max_length=200)] = "",
    before: Position = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    shadow: bool | None = None,
    corrections: bool = True,
    snoozed: bool = False,
) -> Response:
    """Newest first. `key` finds a value in the key. `snoozed` also lists those of snoozed rules and keys."""
    raise NotImplementedError


@routes.get(
    "/alerts/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    openapi_extra=least("viewer"),
)
async def stream(
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=200)] = None,
) -> Response:
    """Events as they come: `alert` (Alert), `alerts` (AlertBatch), `correction` (CorrectionEvent), `operation`
    (Activation), `rules` (RuleChanged), `progress` (ProgressPoint), `gap` (Gap). `Last-Event-ID` resumes after it."""
    raise NotImplementedError


@routes.get("/alerts/{alert_id}/evidence", response_model=shapes.Evidence, openapi_extra=least("viewer"))
def get_evidence(alert_id: AlertId) -> Response:
    """The transactions that made up an alert's window, read from the broker."""
    raise NotImplementedError


@routes.put("/alerts/{alert_id}/mark", response_model=shapes.Mark, openapi_extra=least("analyst"))
def mark_alert(alert_id: AlertId, body: shapes.MarkRequest) -> Response:
    """Say whether it was a fraud."""
    raise NotImplementedError


@routes.delete("/alerts/{alert_id}/mark", status_code=204, openapi_extra=least("analyst"))
def unmark_alert(alert_id: AlertId) -> Response:
    """Take back what was said."""
    raise NotImplementedError


@routes.get("/snoozes", response_model=shapes.Snoozes, openapi_extra=least("viewer"))
def list_snoozes() -> Response:
    """Those in force."""
    raise NotImplementedError


@routes.post("/snoozes", status_code=201, response_model=shapes.Snooze, openapi_extra=least("analyst"))
def snooze(body: shapes.SnoozeRequest) -> Response:
    """Keep alerts of a rule, or of one key of it, out of the list until a time."""
    raise NotImplementedError


@routes.delete("/snoozes/{snooze_id}", status_code=204, openapi_extra=least("analyst"))
def end_snooze(snooze_id: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
    """End it before its time."""
    raise NotImplementedError


@routes.get("/quality", response_model=shapes.QualityTable, openapi_extra=least("viewer"))
def quality() -> Response:
    """How each rule does."""
    raise NotImplementedError

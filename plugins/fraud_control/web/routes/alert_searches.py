"""Routes of the alert index: the export of a search, and the searches that users saved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from fraud_control.composition import ControlPlane
from fraud_control.domain import alert_search
from fraud_control.domain.alert_search import AlertSearch
from fraud_control.feed.place import Position
from fraud_control.service import alert_marks
from fraud_control.service.alerts.export import AlertFile, ExportFormat, new_alert_file
from fraud_control.web.alert_query import AlertQuery
from fraud_control.web.answer import answer, nothing, streamed_file
from fraud_control.web.auth import CurrentActor, CurrentUser
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.load.lanes import LaneName, Lanes
from fraud_control.web.problems import WebError
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import alerts as schemas
from fraud_rules.runtime.clock import now_ms

routes = router("alerts")

_PIECE: Final = 1_000

SearchName = Annotated[str, Path(min_length=1, max_length=80)]


class ExportQuery(AlertQuery):
    """The search, the form of the file, and the largest number of alerts in it."""

    format: ExportFormat = ExportFormat.CSV
    limit: Annotated[int | None, Query(ge=1)] = None


@routes.get(
    "/alerts/export",
    response_class=StreamingResponse,
    responses={200: {"content": {form.media_type.partition(";")[0]: {} for form in ExportFormat}}},
    openapi_extra=least("viewer"),
)
async def export_alerts(
    plane: CurrentPlane, user: CurrentUser, request: Request, query: Annotated[ExportQuery, Query()]
) -> Response:
    """Export the alerts of a search as a file, in its order. `limit` may be at most 100,000, which
    is also its default."""
    most = plane.settings.bounds.export_rows
    if query.limit is not None and query.limit > most:
        raise WebError(422, f"limit may be at most {most:,}")
    lanes: Lanes = request.app.state.lanes
    file = new_alert_file(query.format, plane.schema, plane.masking.of(user[1]))
    pieces = _pieces(plane, query.search(now_ms()), file, query.limit or most, lanes, user[0])
    name = f"alerts-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{query.format}"
    return await streamed_file(pieces, name, query.format.media_type)


@routes.get("/saved-searches", response_model=schemas.SavedSearches, openapi_extra=least("viewer"))
def list_saved_searches(plane: CurrentPlane, user: CurrentUser) -> Response:
    """List your saved searches of alerts."""
    return answer(schemas.SavedSearches(items=list(plane.searches.saved(user[0]))))


@routes.put("/saved-searches/{name}", response_model=alert_search.SavedSearch, openapi_extra=least("viewer"))
def save_search(
    plane: CurrentPlane, actor: CurrentActor, name: SearchName, body: schemas.SaveSearchRequest
) -> Response:
    """Save a search of alerts for yourself, or replace the one of this name."""
    return answer(plane.searches.save(actor, name, body.query))


@routes.delete("/saved-searches/{name}", status_code=204, openapi_extra=least("viewer"))
def remove_saved_search(plane: CurrentPlane, actor: CurrentActor, name: SearchName) -> Response:
    """Remove one of your saved searches."""
    plane.searches.remove(actor, name)
    return nothing()


async def _pieces(
    plane: ControlPlane, search: AlertSearch, file: AlertFile, limit: int, lanes: Lanes, user: str
) -> AsyncIterator[bytes]:
    """Yield the file. Each piece waits for its turn in the lane of exports, so an export holds no thread in between."""
    after: Position | None = None
    left = limit
    while left > 0:
        read = partial(_piece, plane, search, file, after, min(_PIECE, left))
        content, after, count = await lanes[LaneName.FILES].run(user, read)
        yield content
        left -= count
        if after is None:
            break
    yield await lanes[LaneName.FILES].run(user, file.end)


def _piece(
    plane: ControlPlane, search: AlertSearch, file: AlertFile, after: Position | None, limit: int
) -> tuple[bytes, Position | None, int]:
    found, following = plane.searches.page(search, plane.snoozing(), after, limit)
    with plane.store.reading() as work:
        marks = alert_marks.marks(work.session, [each.alert.facts.alert_id for each in found])
    return file.add(found, marks), following, len(found)
